//! The servers as processes of their own, the processor time that they took, and their end with the bench.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Outcome;

/// Ticks a second in `/proc/PID/stat`: the kernel's interface has been fixed at 100 on every Linux architecture in use.
const TICKS_PER_SECOND: u32 = 100;

/// A child process that ends when this goes.
pub(crate) struct Server {
    name: String,
    child: Child,
    log: std::path::PathBuf,
}

impl Server {
    /// Starts the command; what it writes goes to `NAME.log` in `folder`.
    pub(crate) fn start(name: &str, command: &mut Command, folder: &Path) -> Outcome<Self> {
        let log = folder.join(format!("{name}.log"));
        let out = File::create(&log)?;
        let child = command
            .stdin(Stdio::null())
            .stderr(out.try_clone()?)
            .stdout(out)
            .spawn()
            .map_err(|error| format!("{} did not start: {error}", command.get_program().display()))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the check holds, at most five minutes; an ended process is an error at once.
    pub(crate) async fn ready(&mut self, mut check: impl AsyncFnMut() -> bool) -> Outcome<()> {
        let started = Instant::now();
        while !check().await {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("{} ended with {status}: {}", self.name, self.last_words()).into());
            }
            if started.elapsed() > Duration::from_mins(5) {
                return Err(format!(
                    "{} is not ready after five minutes: {}",
                    self.name,
                    self.last_words()
                )
                .into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; there is nobody left to tell.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processor time of a process until now, all its threads, in user and system mode.
pub(crate) fn processor_time(pid: u32) -> Outcome<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The command's name stands in parentheses and may hold anything; the fields are counted after it.
    let (_, fields) = stat
        .rsplit_once(')')
        .ok_or("/proc/PID/stat without a command name")?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut next = || fields.next().and_then(|field| field.parse::<u32>().ok());
    let (user, system) = next().zip(next()).ok_or("/proc/PID/stat without times")?;
    Ok(Duration::from_secs(1) * (user + system) / TICKS_PER_SECOND)
}

/// A field of `/proc/PID/status` that is in kB, in MiB.
pub(crate) fn memory(pid: u32, field: &str) -> Outcome<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .ok_or_else(|| format!("/proc/PID/status without {field}"))?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kibibytes / 1024)
}

/// A free port on loopback, below the range from which the kernel gives ports to clients.
pub(crate) fn free_address() -> Outcome<SocketAddr> {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % 8000)?;
    for _ in 0..1000 {
        let port = 21_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err("no free port between 21000 and 31000".into())
}

/// Whether something listens.
pub(crate) async fn listens(address: SocketAddr) -> bool {
    TcpStream::connect(address).await.is_ok()
}

/// Whether a plain HTTP endpoint answers 200.
pub(crate) async fn answers(address: SocketAddr, path: &str) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(answer.starts_with(b"HTTP/1.1 200"))
    };
    ask.await.unwrap_or(false)
}
