use std::num::NonZeroU32;
use std::sync::Arc;

use super::*;
use crate::device::Sharing;
use crate::units::Mib;

fn pool(sharing: Sharing, device: DeviceKind, devices: u32) -> Pool {
    let slots = devices * sharing.slots_per_device();
    Pool {
        resource: Arc::from("nvidia.com/gpu"),
        device,
        product: Arc::from("NVIDIA-L40S"),
        total: Some(Mib::new(46_068)),
        sharing,
        bounds_containers: false,
        devices,
        slots,
        usable_slots: slots,
        allocation: None,
    }
}

fn sliced(devices: u32) -> Pool {
    let four = NonZeroU32::new(4).unwrap();
    pool(Sharing::TimeSliced(four), DeviceKind::Gpu, devices)
}

fn hold(ppm: u64) -> Hold {
    Hold {
        container: "c".to_owned(),
        rank: 0,
        request: Mib::ZERO,
        overhead: Mib::ZERO,
        share: Share::from_ppm(ppm),
    }
}

fn ppm(number: u64) -> Share {
    Share::from_ppm(number)
}

fn carried(role: Role, ppm: u64) -> Carried {
    Carried {
        container: String::new(),
        role,
        path: FieldPath::default(),
        pointer: String::new(),
        share: Some(Share::from_ppm(ppm)),
    }
}

#[test]
fn quantities_are_read_as_the_api_server_writes_them() {
    assert_eq!(read("300000"), Some(ppm(300_000)));
    assert_eq!(read("300k"), Some(ppm(300_000)));
    assert_eq!(read("0"), Some(Share::ZERO));
    assert_eq!(read("500m"), None);
    assert_eq!(read("-1"), None);
    assert_eq!(read("much"), None);
}

#[test]
fn three_shares_of_three_tenths_are_the_budget_exactly() {
    let budget = capacity(&[sliced(1)], ppm(900_000));
    assert_eq!(budget, ppm(900_000));
    assert_eq!(ppm(300_000).times(3), budget);
}

#[test]
fn a_node_is_worth_its_devices() {
    let mig = pool(Sharing::Exclusive, DeviceKind::Mig(Arc::from("1g.10gb")), 7);
    let whole = pool(Sharing::Exclusive, DeviceKind::Gpu, 2);
    assert_eq!(capacity(&[sliced(2)], ppm(900_000)), ppm(1_800_000));
    assert_eq!(capacity(&[sliced(1), whole], ppm(900_000)), ppm(2_900_000));
    assert_eq!(capacity(&[mig], ppm(900_000)), ppm(7_000_000));
    assert_eq!(capacity(&[], ppm(900_000)), Share::ZERO);
    // One of two devices is unhealthy; none usable means a device plugin that starts again.
    let mut sick = sliced(2);
    sick.usable_slots = 4;
    assert_eq!(capacity(&[sick.clone()], ppm(900_000)), ppm(900_000));
    sick.usable_slots = 0;
    assert_eq!(capacity(&[sick], ppm(900_000)), ppm(1_800_000));
}

#[test]
fn who_carries_nothing_is_taken_off_the_node() {
    let pools = [sliced(2)];
    let mut standing = Standing::default();
    standing.add(1, [hold(300_000)]);
    assert_eq!(uncarried(&pools, &[standing.clone()], Share::ZERO), ppm(300_000));
    // Who carries all of it is counted by the scheduler; who takes more than it carries counts for the rest.
    assert_eq!(uncarried(&pools, &[standing.clone()], ppm(300_000)), Share::ZERO);
    assert_eq!(uncarried(&pools, &[standing.clone()], ppm(100_000)), ppm(200_000));
    assert_eq!(uncarried(&pools, &[standing], ppm(900_000)), Share::ZERO);
    // Memory of every device is memory of each.
    let mut everywhere = Standing::default();
    everywhere.add_everywhere([hold(100_000)]);
    assert_eq!(uncarried(&pools, &[everywhere], Share::ZERO), ppm(200_000));
    // Devices of its own are counted by their own resource.
    let whole = [pool(Sharing::Exclusive, DeviceKind::Gpu, 2)];
    let mut own = Standing::default();
    own.add(1, [hold(1_000_000)]);
    assert_eq!(uncarried(&whole, &[own], Share::ZERO), Share::ZERO);
}

#[test]
fn nothing_is_advertised_below_zero_nor_below_what_stands_there() {
    assert_eq!(advertised(ppm(900_000), ppm(300_000), Share::ZERO), ppm(600_000));
    assert_eq!(advertised(ppm(900_000), ppm(1_200_000), Share::ZERO), Share::ZERO);
    assert_eq!(advertised(ppm(900_000), ppm(300_000), ppm(900_000)), ppm(900_000));
}

#[test]
fn init_containers_count_by_their_peak_and_sidecars_beside() {
    use Role::{Container, Init, Sidecar};
    assert_eq!(effective(&[]), Share::ZERO);
    let pod = [
        carried(Init, 500_000),
        carried(Sidecar, 100_000),
        carried(Init, 300_000),
        carried(Container, 200_000),
        carried(Container, 150_000),
    ];
    // Together 450,000; the first init container alone, before any sidecar, is more.
    assert_eq!(effective(&pod), ppm(500_000));
    assert_eq!(effective(&pod[1..]), ppm(450_000));
    assert_eq!(effective(&pod[1..3]), ppm(400_000));
}

#[test]
fn the_share_of_several_kinds_of_nodes_is_that_of_the_shared_ones() {
    let of = |kinds: &[Taken]| share(kinds.iter().copied());
    assert_eq!(of(&[Taken::Shared(ppm(3)), Taken::Shared(ppm(5))]), ppm(5));
    assert_eq!(of(&[Taken::Shared(ppm(3)), Taken::Own(1)]), ppm(3));
    assert_eq!(of(&[Taken::Own(2), Taken::Nothing]), ppm(2_000_000));
    assert_eq!(of(&[Taken::Nothing]), Share::ZERO);
    assert_eq!(of(&[]), Share::ZERO);
}

#[test]
fn holds_are_raised_to_what_their_container_carries_to_the_millionth() {
    let mut holds = [hold(10), hold(10), hold(10)];
    raise(&mut holds, ppm(100));
    let sum: u64 = holds.iter().map(|hold| hold.share.ppm()).sum();
    assert_eq!(sum, 100);
    // A carried value never lowers what is read.
    raise(&mut holds, ppm(1));
    assert_eq!(holds[0].share, ppm(34));
    raise(&mut [], ppm(1));
}
