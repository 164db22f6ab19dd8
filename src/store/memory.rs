//! Records in the memory of this process, for tests and for what is not shared. Several replicas may share one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;

use super::{ReadError, Store, Stored, Version, WriteError};
use crate::record::NodeRecord;

/// What happens to one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// A write finds that somebody else was faster, although nobody was.
    Conflict,
    /// The call does not arrive, and no answer comes.
    LostBefore,
    /// The call is carried out, and its answer does not come.
    LostAfter,
    /// No answer comes, and the call is carried out later, if it still can be.
    Late,
}

/// Decides what happens to each call, and when it goes on.
pub trait Weather: Send + Sync + 'static {
    /// Awaited before a call is carried out; says what happens to it.
    fn before(&self) -> BoxFuture<'_, Fault>;
    /// Awaited before the answer is given.
    fn after(&self) -> BoxFuture<'_, ()>;
}

/// See the module.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<State>,
    weather: Option<Arc<dyn Weather>>,
}

#[derive(Default)]
struct State {
    last: u64,
    records: BTreeMap<String, Stored>,
    late: Vec<(String, NodeRecord, Option<Version>)>,
    writes: u64,
}

impl MemoryStore {
    /// An empty store in which nothing goes wrong.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store in this weather.
    #[must_use]
    pub fn with_weather(weather: Arc<dyn Weather>) -> Self {
        Self {
            weather: Some(weather),
            ..Self::default()
        }
    }

    /// All records, as they are now.
    #[must_use]
    pub fn records(&self) -> BTreeMap<String, Stored> {
        self.lock().records.clone()
    }

    /// How many writes were carried out.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.lock().writes
    }

    /// Carries the calls out that were held back, each if its version is still the one that it is over.
    pub fn deliver_late(&self) {
        let mut state = self.lock();
        for (node, record, over) in std::mem::take(&mut state.late) {
            // Nobody waits for the answer.
            let _ = state.write(&node, &record, over.as_ref());
        }
    }

    /// A record as a hand writes it, over whatever there is.
    pub fn put(&self, node: &str, record: NodeRecord) -> Stored {
        self.lock().put(node, record)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn before(&self) -> Fault {
        match &self.weather {
            Some(weather) => weather.before().await,
            None => Fault::None,
        }
    }

    async fn after(&self) {
        if let Some(weather) = &self.weather {
            weather.after().await;
        }
    }
}

impl State {
    fn put(&mut self, node: &str, record: NodeRecord) -> Stored {
        self.last += 1;
        self.writes += 1;
        let stored = Stored {
            record,
            version: Version(self.last.to_string()),
        };
        self.records.insert(node.to_owned(), stored.clone());
        stored
    }

    fn write(
        &mut self,
        node: &str,
        record: &NodeRecord,
        over: Option<&Version>,
    ) -> Result<Stored, WriteError> {
        if self.records.get(node).map(|stored| &stored.version) != over {
            return Err(conflict(node));
        }
        Ok(self.put(node, record.clone()))
    }

    fn remove(&mut self, node: &str, over: &Version) -> Result<(), WriteError> {
        if self.records.get(node).map(|stored| &stored.version) != Some(over) {
            return Err(conflict(node));
        }
        self.last += 1;
        self.records.remove(node);
        Ok(())
    }
}

fn conflict(node: &str) -> WriteError {
    WriteError::Conflict {
        node: node.to_owned(),
    }
}

fn unknown(node: &str) -> WriteError {
    WriteError::Unknown {
        node: node.to_owned(),
        reason: "the answer was lost".to_owned(),
    }
}

impl Store for MemoryStore {
    fn read<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<Option<Stored>, ReadError>> {
        Box::pin(async move {
            let fault = self.before().await;
            let found = self.lock().records.get(node).cloned();
            self.after().await;
            match fault {
                Fault::None | Fault::Conflict => Ok(found),
                Fault::LostBefore | Fault::LostAfter | Fault::Late => Err(ReadError {
                    node: node.to_owned(),
                    reason: "the answer was lost".to_owned(),
                }),
            }
        })
    }

    fn write<'a>(
        &'a self,
        node: &'a str,
        record: &'a NodeRecord,
        over: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<Stored, WriteError>> {
        Box::pin(async move {
            let fault = self.before().await;
            let result = match fault {
                Fault::None => self.lock().write(node, record, over),
                Fault::Conflict => Err(conflict(node)),
                Fault::LostBefore => Err(unknown(node)),
                Fault::LostAfter => {
                    // Whether it was carried out is what the caller does not learn.
                    let _ = self.lock().write(node, record, over);
                    Err(unknown(node))
                }
                Fault::Late => {
                    let late = (node.to_owned(), record.clone(), over.cloned());
                    self.lock().late.push(late);
                    Err(unknown(node))
                }
            };
            self.after().await;
            result
        })
    }

    fn remove<'a>(&'a self, node: &'a str, over: &'a Version) -> BoxFuture<'a, Result<(), WriteError>> {
        Box::pin(async move {
            let fault = self.before().await;
            let result = match fault {
                Fault::None => self.lock().remove(node, over),
                Fault::Conflict => Err(conflict(node)),
                Fault::LostBefore | Fault::Late => Err(unknown(node)),
                Fault::LostAfter => {
                    let _ = self.lock().remove(node, over);
                    Err(unknown(node))
                }
            };
            self.after().await;
            result
        })
    }
}
