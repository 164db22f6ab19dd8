//! Claims and templates that do not exist (yet). What they will ask for is not known; who waits for the same one is: whichever
//! device it gets, they get it together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::full::Full;
use super::judge::{Context, Judged, MOST_KINDS, device_policy};
use super::meet::{Company, Ground, Sums};
use super::sharers::{Beside, Member, Resolved, Spot, Wanted, Which, request_of};
use super::text;
use crate::demand::weigh::by_claim::{sharing, untold};
use crate::demand::weigh::under;
use crate::demand::{Claim, Demand, Use};
use crate::dra::MayBeFor;
use crate::dra::devices::Kind;
use crate::dra::resolve::{Mps, Terms};
use crate::engine::Engine;
use crate::finding::Finding;
use crate::ledger::claims::{Claimant, means};

/// Tells of claims that do not exist, and sums up who waits for them.
///
/// The sum refuses where it is above the budget of each device that the claim could get: there are no classes but
/// NVIDIA's. Where there are others, the claim may be for anything, and the sum is only told. An amount that cannot be
/// told is none of the sum, and is told with its reason; so is a container that may get its GPU otherwise, where the claim may
/// be for a channel of a ComputeDomain.
pub(super) fn judge(context: &Context<'_>, demand: &Demand, resolved: &[Resolved<'_>], judged: &mut Judged) {
    let mut spots: BTreeMap<Wanted, Vec<Member<'_, '_>>> = BTreeMap::new();
    let missing = || {
        let all = resolved.iter();
        all.flat_map(|one| one.missing.iter().map(move |missing| (one.used, missing)))
    };
    for (_, of) in missing() {
        let (which, _) = &of.wanted;
        for request in requests(context, which, missing().map(|(_, other)| &other.wanted)) {
            let wanted = (which.clone(), request);
            if spots.contains_key(&wanted) {
                continue;
            }
            let mut there: Vec<Member<'_, '_>> = Vec::new();
            for (used, other) in missing() {
                let (of, named) = &other.wanted;
                let meets = of == which && (named.is_empty() || *named == wanted.1);
                if meets && !there.iter().any(|known| std::ptr::eq(known.used, used)) {
                    there.push(Member {
                        used,
                        wanted: &other.wanted,
                        choice: None,
                    });
                }
            }
            if !there.is_empty() {
                spots.insert(wanted, there);
            }
        }
    }
    let mut told: BTreeMap<&Which, Vec<String>> = BTreeMap::new();
    for (wanted, members) in &spots {
        let spot = Spot::Request(wanted.clone());
        let company = Company::of(context, &spot, members);
        match sum(context, demand, wanted, &company, judged) {
            Told::Nothing => {}
            Told::Sum(sentence) => told.entry(&wanted.0).or_default().push(sentence),
            Told::Full(finding) => judged.findings.push(*finding),
        }
    }
    let policy = judged.policy.clone();
    let mut is_told = BTreeSet::new();
    for (used, of) in missing() {
        let mut parts = used.claim.parts.iter();
        let runs_engine = parts.any(|part| part.engine != Engine::Unknown);
        if runs_engine && is_told.insert((&used.claim.pointer, &of.why)) {
            let mut finding = text::missing(used, &of.why);
            for sentence in told.get(&of.wanted.0).into_iter().flatten() {
                finding = finding.detail(sentence.clone());
            }
            judged.findings.push(under(&policy, finding));
        }
    }
}

/// The requests of a claim that somebody names; the empty name where nobody does. Who names none gets the devices of all.
fn requests<'w>(
    context: &Context<'_>,
    which: &Which,
    own: impl Iterator<Item = &'w Wanted>,
) -> BTreeSet<Arc<str>> {
    let own = own
        .filter(|(of, _)| of == which)
        .map(|(_, request)| request.clone());
    let mut requests: BTreeSet<Arc<str>> = own.collect();
    if let Which::Named(name) = which {
        let holders = context.ledger.claimants(context.namespace, name);
        let others = holders.map(|holder| (&*holder.demand, Some(&holder.made)));
        let beside = context.siblings.iter().map(|(demand, _)| (*demand, None));
        let none = BTreeMap::new();
        for (demand, made) in others.chain(beside) {
            let refs = demand.uses.iter().flat_map(|used| &used.refs);
            let refs = refs.filter(|of| means(of, made.unwrap_or(&none), name));
            let named = refs.filter_map(|of| of.request.as_deref());
            requests.extend(named.map(|request| Arc::from(request_of(request))));
        }
    }
    if requests.len() > 1 {
        requests.remove("");
    }
    requests
}

/// What the sum of those who wait comes to.
enum Told {
    Nothing,
    Sum(String),
    Full(Box<Finding>),
}

fn sum(
    context: &Context<'_>,
    demand: &Demand,
    wanted: &Wanted,
    company: &Company<'_, '_, '_, '_>,
    judged: &mut Judged,
) -> Told {
    let dra = &context.ledger.dra;
    let may_be_for = dra.may_be_for();
    let is_nvidias = may_be_for != MayBeFor::Anything;
    let mut kinds: Vec<Arc<Kind>> = Vec::new();
    if is_nvidias {
        kinds.extend(dra.kinds().take(MOST_KINDS).cloned());
    }
    // More kinds than are looked at could have one on which they fit.
    if kinds.is_empty() || kinds.len() == MOST_KINDS {
        kinds = vec![Arc::new(Kind::unknown())];
    }
    let policy = judged.policy.clone();
    let mut least: Option<(Sums, Arc<Kind>, Known<'_, '_, '_>)> = None;
    for kind in kinds {
        let device = device_policy(context, &kind);
        let known = Known::of(company, demand, &kind, may_be_for);
        let ground = Ground {
            kind: &kind,
            policy: &policy,
            device: &device,
            terms: Some(Terms::OPEN),
            shared: sharing(&kind, None, Mps::default(), company.count()),
        };
        let sums = ground.sums(context, &known.company(company.pods));
        let left = |sums: &Sums| sums.budget.less(sums.sum);
        let is_least = least.as_ref().is_none_or(|(other, _, _)| {
            (left(&sums), std::cmp::Reverse(sums.sum)) > (left(other), std::cmp::Reverse(other.sum))
        });
        if is_least {
            least = Some((sums, kind, known));
        }
    }
    let Some((sums, kind, known)) = least else {
        return Told::Nothing;
    };
    judged.share = judged.share.max(sums.own.share);
    if company.count() <= 1 {
        return Told::Nothing;
    }
    if sums.sum <= sums.budget || !is_nvidias {
        return Told::Sum(text::sum_of_waiting(wanted, company, &sums, &known.untold));
    }
    let full = Full {
        company: &known.company(company.pods),
        sums: &sums,
        kind: &kind,
        device: None,
        evidence: format!(
            "evidence: {} does not exist yet; whichever device it gets, it is one and the same, and there are no classes but \
             NVIDIA's",
            text::claim(&wanted.0)
        ),
    };
    let mut finding = full.finding(context);
    for sentence in &known.untold {
        finding = finding.detail(sentence.clone());
    }
    Told::Full(Box::new(under(&policy, finding)))
}

/// Those of a company of whom it can be told what they take of a device of a kind, and why not of the others.
struct Known<'r, 'd, 'l> {
    members: Vec<Member<'r, 'd>>,
    others: Vec<Claimant<'l>>,
    beside: Vec<Beside<'l>>,
    untold: Vec<String>,
}

impl<'r, 'd, 'l> Known<'r, 'd, 'l> {
    fn of(company: &Company<'_, 'r, 'd, 'l>, own: &Demand, kind: &Kind, may_be_for: MayBeFor) -> Self {
        let mut sentences = Vec::new();
        let mut is_known = |used: &Use, of: Option<&Demand>| {
            let asks = |claim: &Claim| claim.container == used.claim.container;
            let has_other = used.refs.len() > 1 || of.is_some_and(|of| of.claims.iter().any(asks));
            let may_be_other = may_be_for != MayBeFor::Gpus && has_other;
            let why = may_be_other.then_some("it may get its GPU by something else");
            let why = why.or_else(|| untold(used, kind));
            sentences.extend(why.map(|why| text::untold(used, why)));
            why.is_none()
        };
        let members = company.members.iter().filter(|one| is_known(one.used, Some(own)));
        let members = members.cloned().collect();
        let others = company.others.iter();
        let others = others.filter(|one| is_known(one.used, Some(&one.holder.demand)));
        let others = others.cloned().collect();
        let beside = company.beside.iter().filter(|one| is_known(one.used, None));
        let beside = beside.cloned().collect();
        Self {
            members,
            others,
            beside,
            untold: sentences,
        }
    }

    fn company(&self, pods: u32) -> Company<'_, 'r, 'd, 'l> {
        Company {
            members: &self.members,
            pods,
            others: self.others.clone(),
            beside: self.beside.clone(),
        }
    }
}
