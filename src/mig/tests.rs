use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::device::catalogue::{self, Catalogue};
use crate::units::Mib;

fn geometry(product: &str) -> Geometry {
    let product = Catalogue::embedded().product(product).unwrap();
    Geometry::of(product).unwrap()
}

fn with_mig() -> impl Iterator<Item = &'static catalogue::Product> {
    let products = Catalogue::embedded().products().iter();
    products.filter(|product| product.mig.is_some())
}

/// `4g.40gb@0:4` and so on.
fn placed(layout: &Layout) -> String {
    let each = layout
        .instances
        .iter()
        .map(|instance| format!("{}@{}:{}", instance.name, instance.start, instance.size));
    each.collect::<Vec<_>>().join(" ")
}

fn place(product: &str, asked: &[(&str, u32)]) -> Result<String, String> {
    match geometry(product).place(asked.iter().copied()) {
        Ok(layout) => Ok(placed(&layout)),
        Err(impossible) => Err(impossible.to_string()),
    }
}

#[test]
fn every_profile_of_the_catalogue_is_read_and_named_by_the_formula() {
    assert!(with_mig().count() >= 20);
    for product in with_mig() {
        let geometry = Geometry::of(product).unwrap();
        let mig = product.mig.as_ref().unwrap();
        assert_eq!(geometry.profiles.len(), mig.profiles.len(), "{}", product.id);
        for (profile, listed) in geometry.profiles.iter().zip(&mig.profiles) {
            assert_eq!(profile.name.to_string(), listed.name, "{}", product.id);
            assert_eq!(
                gigabytes(listed.memory, product.memory),
                Some(profile.name.gigabytes),
                "{} {}",
                product.id,
                listed.name
            );
            let resource = profile.name.resource().unwrap();
            assert_eq!(resource, listed.resource_name());
            assert_eq!(ProfileName::of_resource(&resource), Some(profile.name));
            assert!(profile.starts.is_sorted());
            // The facts below are of the real slices: multiples of 64 MiB, and no larger than their part of the GPU.
            assert_eq!(listed.memory.get() % 64, 0, "{} {}", product.id, listed.name);
            assert!(
                listed.memory.times(u64::from(mig.memory_slices))
                    <= product.memory.times(u64::from(listed.size)),
                "{} {}",
                product.id,
                listed.name
            );
        }
    }
    assert_eq!(gigabytes(Mib::new(1), Mib::ZERO), None);
}

#[test]
fn names_are_read_in_every_spelling() {
    let read = |text: &str| ProfileName::parse(text).map(|name| name.to_string());
    for (text, name) in [
        ("1g.10gb", "1g.10gb"),
        ("1g.10gb+me", "1g.10gb+me"),
        ("1g.10gb.me", "1g.10gb+me"),
        ("1g.24gb.me.all", "1g.24gb+me.all"),
        ("1g.24gb+me.all", "1g.24gb+me.all"),
        ("1g.24gb-me", "1g.24gb-me"),
        ("2g.48gb.gfx", "2g.48gb+gfx"),
        ("1c.3g.20gb", "1c.3g.20gb"),
    ] {
        assert_eq!(read(text).as_deref(), Some(name), "{text}");
    }
    for text in [
        "",
        "1g",
        "1g10gb",
        "1g.10g",
        "g.gb",
        "01g.5gb",
        "+1g.5gb",
        "1g.5gb+",
        "1g.5gb+xx",
        "INVALID",
        "99999999999g.1gb",
        "1g.10gb.shared",
        "c.1g.5gb",
    ] {
        assert_eq!(read(text), None, "{text}");
    }
    let resource = |text: &str| ProfileName::of_resource(text).and_then(ProfileName::resource);
    assert_eq!(
        resource("nvidia.com/mig-1g.10gb.me.shared").as_deref(),
        Some("nvidia.com/mig-1g.10gb.me")
    );
    assert_eq!(resource("nvidia.com/mig-1c.3g.20gb"), None);
    assert_eq!(resource("nvidia.com/gpu"), None);
}

/// The same question answered in another way: every choice of starts is tried, with overlaps found pair by pair.
mod brute_force {
    use super::*;

    pub(super) fn is_valid(product: &catalogue::Product, counts: &[u32]) -> bool {
        let mig = product.mig.as_ref().unwrap();
        let mut instances: Vec<&catalogue::Profile> = Vec::new();
        for (profile, count) in mig.profiles.iter().zip(counts) {
            if *count > profile.max_count {
                return false;
            }
            instances.extend(std::iter::repeat_n(profile, *count as usize));
        }
        if instances.len() > mig.max_instances as usize {
            return false;
        }
        let ending = |end: &str| instances.iter().filter(|each| each.name.ends_with(end)).count();
        if ending("+me") + ending("+me.all") > 1
            || ending("+me.all") == 1 && ending("-me") + 1 < instances.len()
        {
            return false;
        }
        let compute: u32 = instances.iter().map(|each| each.compute_slices).sum();
        compute <= mig.compute_slices && stand(&instances, &mut Vec::new())
    }

    fn stand(instances: &[&catalogue::Profile], standing: &mut Vec<(u32, u32)>) -> bool {
        let Some((first, rest)) = instances.split_first() else {
            return true;
        };
        first.starts.iter().any(|start| {
            let (from, to) = (*start, *start + first.size);
            if standing.iter().any(|(other, end)| from < *end && *other < to) {
                return false;
            }
            standing.push((from, to));
            let found = stand(rest, standing);
            standing.pop();
            found
        })
    }

    /// All count vectors that are valid, by counting up like a clock.
    pub(super) fn every(product: &catalogue::Product) -> BTreeSet<Vec<u32>> {
        let mig = product.mig.as_ref().unwrap();
        let mut found = BTreeSet::new();
        let mut counts = vec![0_u32; mig.profiles.len()];
        loop {
            let Some(digit) = (0..counts.len()).find(|digit| counts[*digit] < mig.profiles[*digit].max_count)
            else {
                return found;
            };
            counts[..digit].fill(0);
            counts[digit] += 1;
            if is_valid(product, &counts) {
                found.insert(counts.clone());
            }
        }
    }

    /// Sets of placed instances to which none can be added, among the profiles that `of` picks.
    pub(super) fn full_layouts(product: &catalogue::Product, of: fn(&str) -> bool) -> usize {
        let mig = product.mig.as_ref().unwrap();
        let mut places: Vec<(u32, u32, u32)> = Vec::new();
        for profile in mig.profiles.iter().filter(|profile| of(&profile.name)) {
            let each = profile.starts.iter();
            places.extend(each.map(|start| (*start, start + profile.size, profile.compute_slices)));
        }
        let fits = |set: u32| {
            let chosen: Vec<_> = (0..places.len()).filter(|bit| set >> bit & 1 == 1).collect();
            let apart = |a: usize, b: usize| places[a].1 <= places[b].0 || places[b].1 <= places[a].0;
            chosen.iter().map(|bit| places[*bit].2).sum::<u32>() <= mig.compute_slices
                && chosen
                    .iter()
                    .enumerate()
                    .all(|(nth, a)| chosen[nth + 1..].iter().all(|b| apart(*a, *b)))
        };
        let sets = (1_u32..1 << places.len()).filter(|set| fits(*set));
        sets.filter(|set| (0..places.len()).all(|bit| set >> bit & 1 == 1 || !fits(set | 1 << bit)))
            .count()
    }
}

#[test]
fn all_valid_geometries_are_those_that_brute_force_finds() {
    for product in with_mig() {
        let found: Vec<Vec<u32>> = Geometry::of(product).unwrap().every();
        let set: BTreeSet<Vec<u32>> = found.iter().cloned().collect();
        assert_eq!(set.len(), found.len(), "{}", product.id);
        assert_eq!(set, brute_force::every(product), "{}", product.id);
        let known = match product.id.as_str() {
            "a30" => 19,
            "rtx-pro-6000-blackwell" => 114,
            "rtx-pro-5000-blackwell-48gb" => 17,
            "rtx-pro-4500-blackwell-32gb" => 13,
            _ => 127,
        };
        assert_eq!(found.len(), known, "{}", product.id);
    }
}

/// The figure of the MIG guide shows 19 ways to fill an A100 or H100 with its five classic profiles.
#[test]
fn the_full_layouts_of_the_guide_are_counted() {
    let classic =
        |name: &str| !name.contains(['+', '-']) && !matches!(name, "1g.10gb" | "1g.20gb" | "1g.35gb");
    let count =
        |product: &str| brute_force::full_layouts(Catalogue::embedded().product(product).unwrap(), classic);
    assert_eq!(count("a100-40gb"), 19);
    // 4; 2+2; 2+1+1; 1+1+2; 1+1+1+1.
    assert_eq!(count("a30"), 5);
    assert_eq!(count("rtx-pro-6000-blackwell"), 5);
}

#[test]
fn stock_configurations_of_the_mig_manager_are_valid() {
    for product in with_mig() {
        let geometry = Geometry::of(product).unwrap();
        for profile in &geometry.profiles {
            let name = profile.name.to_string();
            let all = geometry.place([(name.as_str(), profile.max_count)]);
            assert!(all.is_ok(), "{} {name}: {all:?}", product.id);
            let more = geometry.place([(name.as_str(), profile.max_count + 1)]);
            assert!(more.is_err(), "{} {name}", product.id);
        }
        let plain = |slices: u32| {
            let smallest = geometry
                .profiles
                .iter()
                .find(|profile| profile.name.slices == slices && profile.name.attribute == Attribute::Plain);
            smallest.unwrap().name.to_string()
        };
        let balanced: Vec<(String, u32)> = match geometry.compute_slices {
            7 => vec![(plain(1), 2), (plain(2), 1), (plain(3), 1)],
            4 => vec![(plain(1), 2), (plain(2), 1)],
            _ => continue,
        };
        let asked = balanced.iter().map(|(name, count)| (name.as_str(), *count));
        assert!(geometry.place(asked).is_ok(), "{}", product.id);
    }
}

#[test]
fn layouts_show_where_each_instance_stands() {
    let h100 = "h100-80gb-sxm";
    for (product, asked, layout) in [
        (
            h100,
            vec![("1g.10gb", 3), ("4g.40gb", 1)],
            "4g.40gb@0:4 1g.10gb@4:1 1g.10gb@5:1 1g.10gb@6:1",
        ),
        (h100, vec![("3g.40gb", 2)], "3g.40gb@4:4 3g.40gb@0:4"),
        (
            h100,
            vec![("1g.10gb", 7)],
            "1g.10gb@0:1 1g.10gb@1:1 1g.10gb@2:1 1g.10gb@3:1 1g.10gb@4:1 1g.10gb@5:1 1g.10gb@6:1",
        ),
        (h100, vec![("2g.20gb", 3)], "2g.20gb@0:2 2g.20gb@2:2 2g.20gb@4:2"),
        (
            "a100-80gb",
            vec![("4g.40gb", 1), ("1g.10gb", 2)],
            "4g.40gb@0:4 1g.10gb@4:1 1g.10gb@5:1",
        ),
        // The one of three slices comes first, and not at the beginning.
        (
            "a100-80gb",
            vec![("1g.10gb", 1), ("1g.10gb.me", 1), ("2g.20gb", 1), ("3g.39gb", 1)],
            "3g.40gb@4:4 2g.20gb@0:2 1g.10gb@2:1 1g.10gb+me@3:1",
        ),
        (
            "rtx-pro-6000-blackwell",
            vec![("1g.24gb-me", 2), ("2g.48gb+me.all", 1)],
            "2g.48gb+me.all@0:6 1g.24gb-me@6:3 1g.24gb-me@9:3",
        ),
        (
            "a30",
            vec![("2g.12gb", 1), ("1g.6gb", 2)],
            "2g.12gb@0:2 1g.6gb@2:1 1g.6gb@3:1",
        ),
    ] {
        assert_eq!(place(product, &asked).as_deref(), Ok(layout), "{asked:?}");
    }
}

#[test]
fn a_layout_is_said_in_short() {
    let layout = geometry("h100-80gb-sxm")
        .place([("1g.10gb", 3), ("4g.40gb", 1)])
        .unwrap();
    assert_eq!(layout.to_string(), "4g.40gb + 3 x 1g.10gb");
    assert_eq!((layout.free_compute_slices, layout.free_units), (0, 1));
}

#[test]
fn what_is_impossible_says_why() {
    let h100 = "h100-80gb-sxm";
    for (product, asked, reason) in [
        (
            h100,
            vec![("4g.40gb", 1), ("3g.40gb", 1), ("1g.10gb", 1)],
            "the compute slices add up to 8, and the GPU has 7; the memory slices add up to 9, and the GPU has 8",
        ),
        (
            h100,
            vec![("4g.40gb", 2)],
            "2 x 4g.40gb, and one GPU has at most 1; the compute slices add up to 8, and the GPU has 7",
        ),
        (
            h100,
            vec![("1g.10gb", 8)],
            "8 x 1g.10gb, and one GPU has at most 7; the compute slices add up to 8, and the GPU has 7",
        ),
        (
            h100,
            vec![("3g.40gb", 2), ("1g.10gb", 1)],
            "the memory slices add up to 9, and the GPU has 8",
        ),
        (
            h100,
            vec![("1c.3g.40gb", 1)],
            "1c.3g.40gb is a compute instance inside 3g.40gb: a geometry is made of GPU instances",
        ),
        (
            "h200",
            vec![("1g.20gb", 1)],
            "h200 has no profile 1g.20gb; the nearest are 1g.18gb, 2g.35gb, 3g.71gb",
        ),
        (
            "rtx-pro-6000-blackwell",
            vec![("1g.24gb+me", 1), ("2g.48gb+me.all", 1)],
            "1g.24gb+me, 2g.48gb+me.all want the media extensions, which one GPU has once",
        ),
        (
            "rtx-pro-6000-blackwell",
            vec![("1g.24gb", 1), ("1g.24gb+me.all", 1)],
            "1g.24gb+me.all takes every media engine, and 1g.24gb needs some (its -me variant needs none)",
        ),
        (
            h100,
            vec![("1g.10gb", u32::MAX), ("1g.10gb", 1)],
            "4294967295 x 1g.10gb, and one GPU has at most 7; the compute slices add up to 4294967295, and the GPU has 7; \
             the memory slices add up to 4294967295, and the GPU has 8",
        ),
    ] {
        let found = place(product, &asked).unwrap_err();
        assert!(found.starts_with(reason), "{asked:?}: {found}");
    }
    let l40s = Catalogue::embedded().product("l40s").unwrap();
    assert_eq!(Geometry::of(l40s), None);
}

/// No product needs it today: a profile that can begin only where another one stands.
#[test]
fn instances_that_overlap_wherever_they_begin_are_told() {
    let mut odd = geometry("a30");
    odd.profiles.retain(|profile| profile.name.slices < 4);
    for profile in &mut odd.profiles {
        profile.starts = vec![0];
    }
    let error = odd.place([("1g.6gb", 1), ("2g.12gb", 1)]).unwrap_err();
    assert_eq!(error.reasons, [Reason::NoPlacement { units: 4 }]);
    // Sizes that no GPU has are no reason to fail.
    odd.profiles[0].size = u32::MAX;
    assert!(odd.place([("1g.6gb", 1)]).is_err());
}

#[test]
fn alternatives_keep_as_much_as_possible() {
    let both = |product: &str, asked: &[(&str, u32)]| {
        let geometry = geometry(product);
        let without = geometry.without_some(asked.iter().copied());
        let smaller = geometry.with_one_smaller(asked.iter().copied());
        (without.as_ref().map(placed), smaller.as_ref().map(placed))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        both("h100-80gb-sxm", &[("4g.40gb", 1), ("3g.40gb", 1), ("1g.10gb", 1)]),
        (
            some("4g.40gb@0:4 3g.40gb@4:4"),
            some("4g.40gb@0:4 2g.20gb@4:2 1g.10gb@6:1")
        )
    );
    assert_eq!(
        both("h100-80gb-sxm", &[("4g.40gb", 2)]),
        (some("4g.40gb@0:4"), some("4g.40gb@0:4 3g.40gb@4:4"))
    );
    let seven = place("h100-80gb-sxm", &[("1g.10gb", 7)]).ok();
    assert_eq!(both("h100-80gb-sxm", &[("1g.10gb", 900)]), (seven, None));
    assert_eq!(both("h200", &[("1g.20gb", 1)]), (None, None));
}

#[test]
fn several_gpus_are_as_few_as_possible() {
    let spread = |product: &str, asked: &[(&str, u32)]| {
        let found = geometry(product).spread(asked.iter().copied()).unwrap().unwrap();
        let layouts: Vec<String> = found.layouts.iter().map(ToString::to_string).collect();
        assert!(found.is_least);
        layouts.join("; ")
    };
    let h100 = "h100-80gb-sxm";
    assert_eq!(spread(h100, &[("4g.40gb", 2)]), "4g.40gb; 4g.40gb");
    assert_eq!(spread(h100, &[("1g.10gb", 8)]), "7 x 1g.10gb; 1g.10gb");
    assert_eq!(
        spread(
            h100,
            &[("3g.40gb", 2), ("4g.40gb", 1), ("2g.20gb", 1), ("1g.10gb", 1)]
        ),
        "4g.40gb + 3g.40gb; 3g.40gb + 2g.20gb + 1g.10gb"
    );
    assert_eq!(geometry(h100).spread([("1g.10gb", u32::MAX)]), Ok(None));
    assert!(geometry(h100).spread([("1g.18gb", 1)]).is_err());
    // As few as brute force says, for anything that two or three GPUs could hold.
    let a30 = geometry("a30");
    for counts in a30.every() {
        for more in a30.every() {
            let names: Vec<String> = a30
                .profiles
                .iter()
                .map(|profile| profile.name.to_string())
                .collect();
            let sums = counts.iter().zip(&more).map(|(a, b)| a + b);
            let asked: Vec<(&str, u32)> = names.iter().map(String::as_str).zip(sums).collect();
            let found = a30.spread(asked.iter().copied()).unwrap().unwrap();
            let alone = a30.place(asked.iter().copied()).is_ok();
            assert_eq!(found.layouts.len(), if alone { 1 } else { 2 }, "{asked:?}");
        }
    }
}

#[test]
fn a_slice_can_be_had_beside_most_of_what_is_there() {
    let beside = |profile: &str, now: &[(&str, u32)]| {
        let layout = geometry("h100-80gb-sxm").beside(profile, now.iter().copied());
        layout.map(|layout| layout.to_string())
    };
    assert_eq!(
        beside("3g.40gb", &[("1g.10gb", 7)]).as_deref(),
        Some("3g.40gb + 4 x 1g.10gb")
    );
    assert_eq!(beside("7g.80gb", &[("1g.10gb", 7)]).as_deref(), Some("7g.80gb"));
    assert_eq!(beside("2g.20gb", &[("2g.20gb", 1)]).as_deref(), Some("2g.20gb"));
    assert_eq!(beside("1g.18gb", &[]), None);
}

#[test]
fn plans_are_valid_or_say_why_and_what_is_nearest() {
    let told = |product: &str, gpus: u32, asked: &[(&str, u32)]| {
        let asked: Vec<(String, u32)> = asked
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect();
        let geometry = Catalogue::embedded().product(product).and_then(Geometry::of);
        let wanted = plan::Wanted {
            asked: &asked,
            gpus,
            may_shrink: true,
        };
        match plan::plan(product, geometry.as_ref(), wanted) {
            Ok(spread) => spread
                .layouts
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; "),
            Err(finding) => {
                assert_eq!(finding.code, crate::finding::Code::Vg304);
                std::iter::once(finding.message)
                    .chain(finding.details)
                    .collect::<Vec<_>>()
                    .join("\n")
            }
        }
    };
    assert_eq!(told("h100-80gb-sxm", 1, &[("3g.40gb", 2)]), "2 x 3g.40gb");
    assert_eq!(told("h100-80gb-sxm", 4, &[("4g.40gb", 2)]), "4g.40gb; 4g.40gb");
    assert_eq!(
        told(
            "h100-80gb-sxm",
            1,
            &[("4g.40gb", 1), ("3g.40gb", 1), ("1g.10gb", 1)]
        ),
        "4g.40gb + 3g.40gb + 1g.10gb cannot stand on one h100-80gb-sxm: the compute slices add up to 8, and the GPU has \
         7; the memory slices add up to 9, and the GPU has 8\n\
         what stands with one profile smaller: 4g.40gb + 2g.20gb + 1g.10gb\n\
         what stands with fewer instances: 4g.40gb + 3g.40gb\n\
         it takes 2 such GPUs: 4g.40gb + 3g.40gb; 1g.10gb"
    );
    assert_eq!(
        told("h100-80gb-sxm", 2, &[("4g.40gb", 3)]),
        "3 x 4g.40gb cannot stand on 2 GPUs of h100-80gb-sxm: it takes 3 such GPUs\n\
         it takes 3 such GPUs: 4g.40gb; 4g.40gb; 4g.40gb"
    );
    assert_eq!(
        told("l40s", 1, &[("1g.10gb", 2)]),
        "2 x 1g.10gb cannot stand on l40s: the product has no MIG"
    );
    assert_eq!(
        told("h200", 1, &[("1g.20gb", 1)]),
        "1g.20gb cannot stand on one h200: h200 has no profile 1g.20gb; the nearest are 1g.18gb, 2g.35gb, 3g.71gb"
    );
}

#[test]
fn a_gpu_that_the_catalogue_does_not_know_gets_names_by_the_formula() {
    let names = |total: u64| {
        let geometry = Geometry::derived("NVIDIA-X1", Mib::new(total));
        let names: Vec<String> = geometry
            .profiles
            .iter()
            .map(|profile| profile.name.to_string())
            .collect();
        assert!(geometry.profiles.iter().all(|profile| profile.memory.is_none()));
        assert_eq!(geometry.basis, Basis::Derived);
        names.join(" ")
    };
    // The same as the catalogue's where the product is known.
    for product in
        with_mig().filter(|product| product.mig.as_ref().is_some_and(|mig| mig.compute_slices == 7))
    {
        let known: Vec<String> = geometry(&product.id)
            .profiles
            .iter()
            .map(|each| each.name.to_string())
            .collect();
        assert_eq!(names(product.memory.get()), known.join(" "), "{}", product.id);
    }
    assert_eq!(
        names(295_000),
        "1g.36gb 1g.36gb+me 1g.72gb 2g.72gb 3g.145gb 4g.145gb 7g.289gb"
    );
}

#[test]
fn nearest_profiles_are_real_ones() {
    let nearest = |product: &str, name: &str| {
        let geometry = geometry(product);
        let names: Vec<String> = geometry
            .nearest(name)
            .iter()
            .map(|profile| profile.name.to_string())
            .collect();
        names.join(" ")
    };
    assert_eq!(nearest("h200", "1g.20gb"), "1g.18gb 2g.35gb 3g.71gb");
    assert_eq!(nearest("h200", "1g.30gb"), "1g.35gb 1g.18gb 3g.71gb");
    assert_eq!(nearest("h100-80gb-sxm", "3g.20gb"), "2g.20gb 1g.10gb 3g.40gb");
    assert_eq!(nearest("h100-80gb-sxm", "mig-1g10gb"), "1g.10gb 2g.20gb 3g.40gb");
    assert_eq!(
        nearest("rtx-pro-6000-blackwell", "1g.20gb+gfx"),
        "1g.24gb+gfx 2g.48gb+gfx 4g.96gb+gfx"
    );
    assert_eq!(nearest("a30", "1g.5gb+gfx"), "1g.6gb 2g.12gb 4g.24gb");
    assert_eq!(nearest("a30", "small"), "1g.6gb 2g.12gb 4g.24gb");
    let held = |need: u64| {
        let h100 = geometry("h100-80gb-sxm");
        let names: Vec<String> = h100
            .profiles_that_hold(Mib::new(need))
            .iter()
            .map(|each| each.name.to_string())
            .collect();
        names.join(" ")
    };
    assert_eq!(held(20_000), "2g.20gb 3g.40gb 4g.40gb 7g.80gb");
    assert_eq!(held(90_000), "");
}

proptest! {
    #[test]
    fn the_search_agrees_with_brute_force_in_any_order(
        product in 0_usize..20,
        asked in prop::collection::vec((0_usize..11, 0_u32..9), 0..6),
        turn in 0_usize..6,
    ) {
        let products: Vec<_> = with_mig().collect();
        let product = products[product % products.len()];
        let mig = product.mig.as_ref().unwrap();
        let mut asked: Vec<(&str, u32)> = asked
            .iter()
            .map(|(index, count)| (mig.profiles[index % mig.profiles.len()].name.as_str(), *count))
            .collect();
        let mut counts = vec![0; mig.profiles.len()];
        for (name, count) in &asked {
            counts[mig.profiles.iter().position(|profile| profile.name == *name).unwrap()] += count;
        }
        let geometry = Geometry::of(product).unwrap();
        let first = geometry.place(asked.iter().copied());
        prop_assert_eq!(first.is_ok(), brute_force::is_valid(product, &counts));
        if let Ok(layout) = &first {
            for (nth, instance) in layout.instances.iter().enumerate() {
                let profile = product.profile(&instance.name.to_string()).unwrap();
                prop_assert!(profile.starts.contains(&instance.start));
                for other in &layout.instances[nth + 1..] {
                    let apart = instance.start + instance.size <= other.start
                        || other.start + other.size <= instance.start;
                    prop_assert!(apart);
                }
            }
        }
        let turns = turn.min(asked.len());
        asked.rotate_left(turns);
        prop_assert_eq!(geometry.place(asked), first);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,24}|[0-9cg.b+me-]{0,16}") {
        if let Some(name) = ProfileName::parse(&text) {
            prop_assert_eq!(ProfileName::parse(&name.to_string()), Some(name));
        }
        for geometry in [geometry("h200"), Geometry::derived("x", Mib::new(u64::MAX))] {
            prop_assert!(geometry.nearest(&text).len() <= 3);
            prop_assert!(geometry.place([(text.as_str(), 1)]).is_err() || geometry.profile(&text).is_some());
        }
    }
}
