//! One way at a time: whether what is asked stands there, and with how many slots or slices.

use super::{Need, Request, Served, Slots};
use crate::mig::plan::{Wanted, plan};
use crate::mig::{Geometry, Spread};
use crate::units::{Mib, Share};

/// What a whole GPU or one of its slots is called, as long as the device plugin does not rename it.
const GPU: &str = "nvidia.com/gpu";
/// Most processes of one GPU that are advised under time-slicing; the plugin knows no limit, people do.
const MOST_SLOTS: u32 = 48;

/// A way that works.
pub(super) struct Found {
    pub(super) reason: String,
    pub(super) notes: Vec<String>,
    pub(super) served: Vec<Served>,
    pub(super) slots: Option<Slots>,
    pub(super) layouts: Option<Spread>,
    pub(super) gpus: u32,
}

/// Slices that hold what is asked, in a valid layout on the GPUs.
pub(super) fn mig(request: &Request<'_>) -> Result<Found, String> {
    let hardware = &request.hardware;
    let Some(geometry) = hardware.geometry else {
        return Err(format!("{} has no MIG", hardware.product));
    };
    let (asked, served) = slices(request, geometry)?;
    let wanted = Wanted {
        asked: &asked,
        gpus: hardware.count,
        may_shrink: false,
    };
    let spread = plan(hardware.product, Some(geometry), wanted)
        .map_err(|finding| format!("VG304: {}", finding.message))?;
    Ok(cut(spread, served, hardware.count))
}

/// The same on as many GPUs as it takes; `None` where it stands on no number of them.
pub(super) fn mig_on_more(request: &Request<'_>) -> Option<Found> {
    let geometry = request.hardware.geometry?;
    let (asked, served) = slices(request, geometry).ok()?;
    let asked = asked.iter().map(|(name, count)| (name.as_str(), *count));
    let spread = geometry.spread(asked).ok()??;
    Some(cut(spread, served, request.hardware.count))
}

/// The smallest slice that holds each need: profiles with counts, and who asks for which resource.
#[allow(clippy::type_complexity, reason = "the two halves of one answer")]
fn slices(request: &Request<'_>, geometry: &Geometry) -> Result<(Vec<(String, u32)>, Vec<Served>), String> {
    let mut asked: Vec<(String, u32)> = Vec::new();
    let mut served = Vec::new();
    for need in request.needs {
        if need.ranks > 1 {
            return Err(format!(
                "{} spreads {} ranks, and a process sees one MIG slice only (VG303)",
                need.name, need.ranks
            ));
        }
        let by_memory = || {
            let holding = geometry.profiles_that_hold(need.all());
            holding.first().map(|profile| profile.name.to_string())
        };
        let Some(profile) = need.profile.clone().or_else(by_memory) else {
            return Err(format!(
                "no slice of {} is known to hold {} ({})",
                request.hardware.product,
                need.name,
                need.all()
            ));
        };
        let resource = geometry
            .profile(&profile)
            .and_then(|profile| profile.name.resource());
        let Some(resource) = resource else {
            return Err(format!("the device plugin has no resource for {profile}"));
        };
        served.push(Served {
            name: need.name.clone(),
            count: need.count,
            resource,
            slots: 1,
            share: None,
        });
        match asked.iter_mut().find(|(name, _)| *name == profile) {
            Some((_, count)) => *count = count.saturating_add(need.count),
            None => asked.push((profile, need.count)),
        }
    }
    Ok((asked, served))
}

fn cut(spread: Spread, served: Vec<Served>, there: u32) -> Found {
    let gpus = u32::try_from(spread.layouts.len()).unwrap_or(u32::MAX);
    let layouts: Vec<String> = spread.layouts.iter().map(ToString::to_string).collect();
    let layouts = layouts.join("; ");
    Found {
        reason: if gpus <= there {
            format!("a valid MIG layout holds all: {layouts}")
        } else {
            format!("a valid MIG layout holds all on {gpus} GPUs, and the node has {there}: {layouts}")
        },
        notes: vec![
            "changing the layout later ends every process on the GPU: plan for what is to come".to_owned(),
            "each pod asks for one slice under the strategy mixed".to_owned(),
        ],
        served,
        slots: None,
        gpus,
        layouts: Some(spread),
    }
}

/// Slots of shared GPUs, under MPS or by time-slicing.
pub(super) fn shared(request: &Request<'_>, mps: bool) -> Result<Found, String> {
    let hardware = &request.hardware;
    if mps && hardware.mps_clients.is_none() {
        return Err(format!(
            "{} is not known to be of Volta or newer, and older GPUs limit no MPS client's memory",
            hardware.product
        ));
    }
    let mut shares = Vec::new();
    for need in request.needs {
        if need.ranks > 1 {
            return Err(format!(
                "{} spreads {} ranks, and two shared slots may be one GPU (VG205)",
                need.name, need.ranks
            ));
        }
        let share = share(request, need);
        if share > request.device.budget {
            return Err(format!(
                "{} takes {share} of a GPU, above the budget {} of a shared one",
                need.name, request.device.budget
            ));
        }
        shares.push(share);
    }
    let largest = shares.iter().copied().max().unwrap_or(Share::ZERO);
    let processes: u64 = request.needs.iter().map(|need| u64::from(need.count)).sum();
    let each = u32::try_from(processes.div_ceil(u64::from(hardware.count.max(1)))).unwrap_or(u32::MAX);
    let replicas = each.max(2);
    let most = if mps {
        hardware.mps_clients.unwrap_or(0)
    } else {
        MOST_SLOTS
    };
    if replicas > most {
        return Err(format!(
            "it takes {replicas} slots of each GPU, and at most {most} are advised"
        ));
    }
    let sum: Share = shares
        .iter()
        .zip(request.needs)
        .map(|(share, need)| share.times(u64::from(need.count)))
        .sum();
    let budget = request.device.budget;
    let fair_share = budget.divided_by(u64::from(replicas));
    let fair = largest <= fair_share;
    // On one GPU the sum is exact; on several nothing tells which slots are of which GPU.
    if hardware.count == 1 && sum > budget {
        return Err(format!(
            "the processes take {sum} of the GPU, above its budget {budget}"
        ));
    }
    if hardware.count > 1 && !fair {
        return Err(format!(
            "the largest takes {largest} of a GPU, above the fair share {fair_share} of {replicas} slots, and nothing tells \
             which slots are of which of the {} GPUs",
            hardware.count
        ));
    }
    if mps {
        // As the device plugin's daemon sets it: total / replicas for each client, whatever it asked for.
        let limit = Mib::new(hardware.total.get() / u64::from(replicas));
        if let Some(need) = request.needs.iter().find(|need| need.all() > limit) {
            return Err(format!(
                "{} takes {}, above the limit {limit} of each of {replicas} MPS clients (VG401)",
                need.name,
                need.all()
            ));
        }
    }
    let served = request.needs.iter().zip(&shares).map(|(need, share)| Served {
        name: need.name.clone(),
        count: need.count,
        resource: GPU.to_owned(),
        slots: 1,
        share: Some(*share),
    });
    let reason = if hardware.count == 1 {
        format!("{processes} processes take {sum} of the GPU, within its budget {budget}")
    } else {
        format!(
            "{processes} processes on {} GPUs take {replicas} slots of each, and the largest takes {largest}, within the fair \
             share {fair_share}",
            hardware.count
        )
    };
    Ok(Found {
        reason,
        notes: notes(mps, hardware.geometry.is_some()),
        served: served.collect(),
        slots: Some(Slots {
            replicas,
            fair,
            fraction: fraction(request, replicas),
            overhead: overhead(request),
        }),
        layouts: None,
        gpus: hardware.count,
    })
}

fn notes(mps: bool, has_mig: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if mps {
        notes.push("one MPS server serves one user: give all its pods the same runAsUser (VG404)".to_owned());
        notes.push(
            "a pod with a volume of its own at /dev/shm collides with the one that MPS mounts (VG403)"
                .to_owned(),
        );
        if has_mig {
            notes.push("MIG has to be off on these GPUs: the device plugin refuses MPS beside it".to_owned());
        }
    } else {
        notes.push(
            "time-slicing limits no memory: every engine needs a fraction or limit of its own, as vramgate asks for".to_owned(),
        );
    }
    notes
}

/// A GPU for each rank.
pub(super) fn whole(request: &Request<'_>) -> Found {
    let hardware = &request.hardware;
    let mut gpus = 0_u64;
    let mut notes = Vec::new();
    let mut served = Vec::new();
    for need in request.needs {
        let slots = need.ranks.max(1);
        gpus = gpus.saturating_add(u64::from(slots) * u64::from(need.count));
        if need.all() > hardware.total {
            notes.push(format!(
                "{} takes {} and one GPU has {}: spread it over several by tensor parallelism",
                need.name,
                need.all(),
                hardware.total
            ));
            gpus = gpus.max(u64::from(hardware.count) + 1);
        }
        served.push(Served {
            name: need.name.clone(),
            count: need.count,
            resource: GPU.to_owned(),
            slots,
            share: None,
        });
    }
    let gpus = u32::try_from(gpus).unwrap_or(u32::MAX);
    let reason = if gpus <= hardware.count {
        "each process has a GPU of its own, and kube-scheduler counts those exactly".to_owned()
    } else {
        format!(
            "whole GPUs remain: it takes {gpus} of them, and the node has {}",
            hardware.count
        )
    };
    Found {
        reason,
        notes,
        served,
        slots: None,
        layouts: None,
        gpus,
    }
}

/// The part of a shared GPU that a process takes, as the ledger counts it.
fn share(request: &Request<'_>, need: &Need) -> Share {
    let (total, device) = (request.hardware.total, request.device);
    let usable = total.less(device.reserve.of(total, false));
    let asked = need
        .stated
        .unwrap_or_else(|| Share::ratio_up(need.request, total));
    asked.max(device.budget.scaled_up(need.all(), usable))
}

/// The fraction with which every slot of a GPU can be used: the smaller of budget / R and
/// (total - reserve - R x overhead) / (R x total), in thousandths rounded down (`fairShare` of `spec.defaults`).
fn fraction(request: &Request<'_>, replicas: u32) -> Share {
    let (total, device) = (request.hardware.total, request.device);
    let slots = u64::from(replicas);
    let left = total
        .less(device.reserve.of(total, false))
        .less(overhead(request).times(slots));
    let by_memory = Share::ratio_down(left, total.times(slots));
    device
        .budget
        .divided_by(slots)
        .min(by_memory)
        .to_thousandths_down()
}

/// What a process takes outside of its fraction at most: that of the needs; of their engine where one is an amount with
/// everything in it.
fn overhead(request: &Request<'_>) -> Mib {
    let of_need = |need: &Need| {
        if need.overhead == Mib::ZERO {
            request.overhead
        } else {
            need.overhead
        }
    };
    request
        .needs
        .iter()
        .map(of_need)
        .max()
        .unwrap_or(request.overhead)
}
