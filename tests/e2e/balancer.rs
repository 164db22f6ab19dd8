//! One address for several processes, as a Service is: connections are passed on as they are, to one after the other.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Passes connections on until it is dropped.
pub struct Balancer {
    port: u16,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

impl Shared {
    fn keep(&self, stream: &TcpStream) {
        if let Ok(stream) = stream.try_clone() {
            self.streams
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(stream);
        }
    }
}

impl Balancer {
    /// Listens on `port` of loopback for the processes behind `backends`.
    pub fn start(port: u16, backends: Vec<u16>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("the address is free");
        let shared = Arc::new(Shared::default());
        let accepting = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                for (turn, connection) in listener.incoming().enumerate() {
                    if shared.stopped.load(Ordering::SeqCst) {
                        return;
                    }
                    let Ok(client) = connection else { continue };
                    let (shared, backends) = (Arc::clone(&shared), backends.clone());
                    std::thread::spawn(move || pass_on(&client, turn, &backends, &shared));
                }
            }
        });
        Self {
            port,
            shared,
            accepting: Some(accepting),
        }
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes the one that accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        for stream in self
            .shared
            .streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain(..)
        {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Joins a connection with the next process whose turn it is and that accepts one.
fn pass_on(client: &TcpStream, turn: usize, backends: &[u16], shared: &Shared) {
    let order = (0..backends.len()).map(|step| backends[(turn + step) % backends.len()]);
    let within = Duration::from_secs(1);
    let connected = order
        .map(|port| TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), within))
        .find_map(Result::ok);
    let Some(server) = connected else {
        let _ = client.shutdown(Shutdown::Both);
        return;
    };
    for stream in [client, &server] {
        let _ = stream.set_nodelay(true);
        shared.keep(stream);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| copy(client, &server));
        copy(&server, client);
    });
}

/// Copies until one side ends, and ends both: a process that was killed must not leave the other waiting.
fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    for stream in [from, to] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}
