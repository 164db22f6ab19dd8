use std::collections::BTreeMap;

use super::*;
use crate::device::catalogue::Catalogue;
use crate::policy::PolicySet;

struct Case {
    product: &'static str,
    gpus: u32,
    isolation: Isolation,
    owners: Owners,
    workload: Workload,
    needs: Vec<Need>,
}

fn need(mib: u64, count: u32) -> Need {
    Need {
        name: format!("{mib} MiB"),
        request: Mib::new(mib),
        stated: None,
        overhead: Mib::ZERO,
        profile: None,
        ranks: 1,
        count,
    }
}

fn case(product: &'static str, gpus: u32, needs: Vec<Need>) -> Case {
    Case {
        product,
        gpus,
        isolation: Isolation::None,
        owners: Owners::Trusted,
        workload: Workload::Inference,
        needs,
    }
}

impl Case {
    fn answer(&self) -> Advice {
        let product = Catalogue::embedded().product(self.product).unwrap();
        let geometry = Geometry::of(product);
        let policy = PolicySet::built_in().for_device(&BTreeMap::new());
        advise(&Request {
            hardware: Hardware {
                product: &product.id,
                total: product.memory,
                geometry: geometry.as_ref(),
                mps_clients: Some(product.mps_max_replicas),
                consumer: product.id.starts_with("rtx-4090"),
                count: self.gpus,
            },
            isolation: self.isolation,
            owners: self.owners,
            workload: self.workload,
            needs: &self.needs,
            overhead: Mib::new(640),
            device: &policy.device,
        })
    }

    fn isolated(mut self) -> Self {
        self.isolation = Isolation::Required;
        self
    }
}

#[test]
fn the_table() {
    let untrusted = |mut case: Case| {
        case.owners = Owners::Untrusted;
        case
    };
    let does = |mut case: Case, workload| {
        case.workload = workload;
        case
    };
    let small = || vec![need(8_000, 4)];
    for (case, way, suffices) in [
        // As many GPUs as processes.
        (case("t4", 4, small()), Way::Whole, true),
        (case("h100-80gb-sxm", 4, small()).isolated(), Way::Whole, true),
        // Isolation: MIG where there is MIG, else whole GPUs, and those may be too few.
        (case("h100-80gb-sxm", 1, small()).isolated(), Way::Mig, true),
        (untrusted(case("h100-80gb-sxm", 1, small())), Way::Mig, true),
        (case("t4", 1, vec![need(2_000, 4)]).isolated(), Way::Whole, false),
        (
            untrusted(case("rtx-4090", 1, vec![need(2_000, 2)])),
            Way::Whole,
            false,
        ),
        // No valid layout on one GPU: 8 slices of 1g.10gb. Two GPUs that are cut are fewer than eight whole ones.
        (
            case("h100-80gb-sxm", 1, vec![need(8_000, 8)]).isolated(),
            Way::Mig,
            false,
        ),
        (
            case("h100-80gb-sxm", 2, vec![need(8_000, 8)]).isolated(),
            Way::Mig,
            true,
        ),
        // Trusted and small.
        (case("h100-80gb-sxm", 1, small()), Way::Mps, true),
        (case("rtx-4090", 1, vec![need(5_000, 4)]), Way::Mps, true),
        (
            does(case("l40s", 1, vec![need(10_000, 4)]), Workload::Interactive),
            Way::TimeSlicing,
            true,
        ),
        (
            does(case("l40s", 1, vec![need(10_000, 4)]), Workload::Batch),
            Way::Mps,
            true,
        ),
        // 25000 MiB of 46068 are above the limit of one of two clients.
        (
            case("l40s", 1, vec![need(25_000, 1), need(14_000, 1)]),
            Way::TimeSlicing,
            true,
        ),
        // The same with isolation by slices, where the product has them.
        (
            does(
                case("a100-80gb", 1, vec![need(45_000, 1), need(9_000, 3)]),
                Workload::Batch,
            ),
            Way::TimeSlicing,
            true,
        ),
        (
            does(
                case("a100-80gb", 1, vec![need(39_000, 1), need(9_000, 3)]),
                Workload::Batch,
            ),
            Way::Mig,
            true,
        ),
        // On several GPUs the fair share of a slot is what counts.
        (case("l40s", 2, vec![need(20_000, 4)]), Way::Mps, true),
        (case("l40s", 2, vec![need(22_000, 4)]), Way::Whole, false),
        // More than a GPU has.
        (case("t4", 1, vec![need(20_000, 1)]), Way::Whole, false),
    ] {
        let advice = case.answer();
        let shown = format!("{} x{} {:?}: {advice:#?}", case.product, case.gpus, case.needs);
        assert_eq!((advice.way, advice.suffices), (way, suffices), "{shown}");
        assert!(!advice.reasons.is_empty() && advice.served.len() == case.needs.len());
        assert_eq!(advice.layouts.is_some(), way == Way::Mig);
        assert_eq!(advice.slots.is_some(), matches!(way, Way::Mps | Way::TimeSlicing));
    }
}

#[test]
fn ranks_are_never_spread_over_what_is_shared() {
    let mut two = need(30_000, 1);
    two.ranks = 2;
    for isolation in [Isolation::Required, Isolation::None] {
        let mut case = case("h100-80gb-sxm", 1, vec![two.clone()]);
        case.isolation = isolation;
        let advice = case.answer();
        assert_eq!((advice.way, advice.gpus, advice.suffices), (Way::Whole, 2, false));
        assert!(advice.rejected.iter().all(|(_, why)| why.contains("ranks")));
        assert_eq!(advice.served[0].slots, 2);
    }
}

#[test]
fn the_fraction_is_the_fair_share_of_a_slot() {
    let mut needs = vec![need(8_000, 4)];
    needs[0].overhead = Mib::new(1_664);
    let slots = case("h100-80gb-sxm", 1, needs).answer().slots.unwrap();
    // 0.90 / 4 = 0.225; (81559 - 1224 - 4 x 1664) / (4 x 81559) = 0.2258.
    assert_eq!((slots.replicas, slots.fraction), (4, Share::from_ppm(225_000)));
    let mut needs = vec![need(3_000, 4)];
    needs[0].overhead = Mib::new(1_664);
    let slots = case("rtx-4090", 1, needs).answer().slots.unwrap();
    // (24564 - 512 - 4 x 1664) / (4 x 24564) = 0.17704 is below 0.225.
    assert_eq!(slots.fraction, Share::from_ppm(177_000));
}

#[test]
fn an_amount_with_everything_in_it_leaves_its_engines_overhead_outside_of_the_fraction() {
    let slots = case("rtx-4090", 1, vec![need(3_000, 4)]).answer().slots.unwrap();
    // (24564 - 512 - 4 x 640) / (4 x 24564) = 0.21873, below 0.225.
    assert_eq!(
        (slots.fraction, slots.overhead),
        (Share::from_ppm(218_000), Mib::new(640))
    );
}

#[test]
fn slices_on_more_gpus_come_before_more_whole_gpus() {
    let advice = case(
        "rtx-pro-6000-blackwell",
        1,
        vec![need(20_000, 3), need(40_000, 1)],
    )
    .isolated()
    .answer();
    assert_eq!((advice.way, advice.gpus, advice.suffices), (Way::Mig, 2, false));
    let reason = advice.reasons.last().unwrap();
    assert!(
        reason.starts_with("a valid MIG layout holds all on 2 GPUs, and the node has 1: "),
        "{reason}"
    );
    assert!(advice.rejected.is_empty(), "{:?}", advice.rejected);
    assert_eq!(advice.layouts.unwrap().layouts.len(), 2);
    // As many cut as whole: nothing is gained by cutting.
    let large = case("h100-80gb-sxm", 1, vec![need(70_000, 2)])
        .isolated()
        .answer();
    assert_eq!((large.way, large.gpus), (Way::Whole, 2));
}
