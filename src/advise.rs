//! Whether GPUs are to be shared, and how: whole devices, MIG slices, MPS or time-slicing, with the reasons.
//!
//! The decision is the field's own, as a table. Isolation decides first: only MIG slices and whole GPUs isolate memory and
//! faults (NVIDIA MIG User Guide; CUDA MPS, "Error Containment": a fatal fault of one client may end all). Where nobody
//! has to be isolated, what the processes do decides the order in which the ways are tried, and each way is taken only if
//! what is asked stands there: the sum of shares on one GPU, the fair share of a slot on several (nothing tells which slot
//! is of which GPU), the memory limit of an MPS client, a valid MIG layout.

use std::fmt;

use crate::mig::{Geometry, Spread};
use crate::policy::DevicePolicy;
use crate::units::{Mib, Share};

mod ways;

/// The GPUs.
#[derive(Clone, Copy, Debug)]
pub struct Hardware<'a> {
    /// Their product, as it is named in texts.
    pub product: &'a str,
    /// Memory of one.
    pub total: Mib,
    /// What one can be cut into; `None` without MIG.
    pub geometry: Option<&'a Geometry>,
    /// Most MPS clients of one that the device plugin accepts; `None` where it is not known to be Volta or newer, before which
    /// MPS limits no memory.
    pub mps_clients: Option<u32>,
    /// Whether it is a consumer card.
    pub consumer: bool,
    /// How many there are.
    pub count: u32,
}

/// Whether those who share a device have to be isolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Memory and faults of one must not reach another.
    Required,
    /// They need not be.
    None,
}

/// Whose processes they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owners {
    /// They trust each other.
    Trusted,
    /// They do not.
    Untrusted,
}

/// What the processes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// They serve, with kernels that leave most of a GPU idle.
    Inference,
    /// They compute without pause.
    Batch,
    /// People work with them, and mostly they wait: notebooks, development.
    Interactive,
}

/// Processes that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// What they are called in texts.
    pub name: String,
    /// What one asks for.
    pub request: Mib,
    /// The same as a fraction, where its arguments say one: sums of fractions are exact, and a request is rounded up.
    pub stated: Option<Share>,
    /// What it takes outside of that.
    pub overhead: Mib,
    /// The MIG profile that surely holds it where that is known better than by its memory.
    pub profile: Option<String>,
    /// GPUs that one spreads its ranks over.
    pub ranks: u32,
    /// How many there are.
    pub count: u32,
}

impl Need {
    fn all(&self) -> Mib {
        self.request.plus(self.overhead)
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The GPUs.
    pub hardware: Hardware<'a>,
    /// Isolation.
    pub isolation: Isolation,
    /// Trust.
    pub owners: Owners,
    /// What they do.
    pub workload: Workload,
    /// What they need.
    pub needs: &'a [Need],
    /// What their engine takes outside of a fraction of its own, where a need does not say it: the fraction that is told has to
    /// leave room for it.
    pub overhead: Mib,
    /// Budget and reserve of a shared device.
    pub device: &'a DevicePolicy,
}

/// A way of giving out GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Each process has GPUs of its own.
    Whole,
    /// Slices of GPUs.
    Mig,
    /// Several clients of one MPS server.
    Mps,
    /// In turns.
    TimeSlicing,
}

impl Way {
    /// The word in documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Mig => "mig",
            Self::Mps => "mps",
            Self::TimeSlicing => "time-slicing",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Whole => "whole GPUs",
            Self::Mig => "MIG slices",
            Self::Mps => "MPS",
            Self::TimeSlicing => "time-slicing",
        })
    }
}

/// How each kind of process is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// What it is called.
    pub name: String,
    /// How many.
    pub count: u32,
    /// The extended resource that one asks for.
    pub resource: String,
    /// How many of it.
    pub slots: u32,
    /// Its part of a shared device; `None` where the device is its own.
    pub share: Option<Share>,
}

/// Slots of a shared GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    /// Slots of each GPU.
    pub replicas: u32,
    /// Whether every process stays below the fair share of a slot, so that every placement is safe.
    pub fair: bool,
    /// The fraction of a GPU that each process may take where all take the same, with `overhead` outside of it.
    pub fraction: Share,
    /// What each takes outside of that fraction.
    pub overhead: Mib,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The way.
    pub way: Way,
    /// Why this one, in the order in which it was decided.
    pub reasons: Vec<String>,
    /// The ways that were looked at before and why each is out.
    pub rejected: Vec<(Way, String)>,
    /// What to know about it.
    pub notes: Vec<String>,
    /// Who asks for what.
    pub served: Vec<Served>,
    /// The slots, where GPUs are shared.
    pub slots: Option<Slots>,
    /// The layouts, where they are cut.
    pub layouts: Option<Spread>,
    /// GPUs of the product that it takes.
    pub gpus: u32,
    /// Whether the GPUs suffice.
    pub suffices: bool,
}

/// Decides.
#[must_use]
pub fn advise(request: &Request<'_>) -> Advice {
    let mut reasons = Vec::new();
    let mut rejected = Vec::new();
    let order = order(request, &mut reasons);
    for way in order {
        let found = match way {
            Way::Mig => ways::mig(request),
            Way::Mps => ways::shared(request, true),
            Way::TimeSlicing => ways::shared(request, false),
            Way::Whole => continue,
        };
        match found {
            Ok(found) => return finish(request, way, found, reasons, rejected),
            Err(why) => rejected.push((way, why)),
        }
    }
    let whole = ways::whole(request);
    // With GPUs of one's own too few, fewer of them suffice where they are cut.
    if whole.gpus > request.hardware.count
        && let Some(cut) = ways::mig_on_more(request)
        && cut.gpus < whole.gpus
    {
        // Its reason says that the GPUs there are too few.
        rejected.retain(|(way, _)| *way != Way::Mig);
        return finish(request, Way::Mig, cut, reasons, rejected);
    }
    finish(request, Way::Whole, whole, reasons, rejected)
}

/// The ways to try, and why in this order.
fn order(request: &Request<'_>, reasons: &mut Vec<String>) -> Vec<Way> {
    let hardware = &request.hardware;
    let devices: u64 = request
        .needs
        .iter()
        .map(|need| u64::from(need.count) * u64::from(need.ranks.max(1)))
        .sum();
    if devices <= u64::from(hardware.count) {
        reasons.push(format!(
            "{} of {} GPUs are enough for one each, so nothing is gained by sharing",
            devices, hardware.count
        ));
        return Vec::new();
    }
    if request.isolation == Isolation::Required || request.owners == Owners::Untrusted {
        reasons.push(if request.isolation == Isolation::Required {
            "isolation is required: time-slicing and MPS isolate neither memory nor faults, MIG slices and whole GPUs do".to_owned()
        } else {
            "the owners do not trust each other: under time-slicing and MPS one of them can end all, under MIG not".to_owned()
        });
        return vec![Way::Mig];
    }
    let (why, ways) = match request.workload {
        Workload::Inference => (
            "trusted processes that serve with small kernels run side by side under MPS, with a memory limit for each",
            vec![Way::Mps, Way::TimeSlicing, Way::Mig],
        ),
        Workload::Batch => (
            "trusted processes that compute without pause run side by side under MPS; time-slicing would only let them wait \
             for each other",
            vec![Way::Mps, Way::Mig, Way::TimeSlicing],
        ),
        Workload::Interactive => (
            "processes that mostly wait for people take turns well, and time-slicing needs no server that one of them could \
             end for all",
            vec![Way::TimeSlicing, Way::Mps, Way::Mig],
        ),
    };
    reasons.push(why.to_owned());
    ways
}

fn finish(
    request: &Request<'_>,
    way: Way,
    found: ways::Found,
    mut reasons: Vec<String>,
    rejected: Vec<(Way, String)>,
) -> Advice {
    reasons.push(found.reason);
    let mut notes = found.notes;
    if request.hardware.consumer && way != Way::Whole {
        notes.push(
            "a consumer card: it has no MIG, and the licence of its driver excludes data centres".to_owned(),
        );
    }
    Advice {
        way,
        reasons,
        rejected,
        notes,
        served: found.served,
        slots: found.slots,
        layouts: found.layouts,
        suffices: found.gpus <= request.hardware.count,
        gpus: found.gpus,
    }
}

#[cfg(test)]
mod tests;
