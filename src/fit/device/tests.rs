use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Named {
    Named::parse(Catalogue::embedded(), text).unwrap_or_else(|error| panic!("{error}"))
}

fn error(text: &str) -> String {
    Named::parse(Catalogue::embedded(), text).unwrap_err().to_string()
}

#[test]
fn totals_stand_alone_with_their_unit_or_without() {
    for text in ["81559", "81559MiB", "81559 MiB", " 81559 mib "] {
        let named = parse(text);
        assert_eq!(named.device.total, Mib::new(81_559), "{text}");
        assert_eq!(named.device.least_total, Mib::new(81_559), "{text}");
        assert_eq!(named.device.class, Class::default(), "{text}");
        assert_eq!(named.product, None);
    }
}

#[test]
fn products_are_found_by_id_label_and_alias() {
    for text in [
        "h100-80gb-sxm",
        "NVIDIA-H100-80GB-HBM3",
        "NVIDIA H100 80GB HBM3",
        "H100-SXM5-80GB",
        "NVIDIA-H100-80GB-HBM3-SHARED",
    ] {
        let named = parse(text);
        assert_eq!(named.title(), "h100-80gb-sxm", "{text}");
        assert_eq!(named.device.total, Mib::new(81_559), "{text}");
        assert!(named.device.class.h100 && !named.device.class.mig, "{text}");
    }
}

#[test]
fn a_total_beside_a_name_wins_however_odd() {
    let named = parse("h100-80gb-sxm=1000");
    assert_eq!(named.device.total, Mib::new(1_000));
    assert!(
        named.notes[0].contains("1000 MiB are taken as written"),
        "{named:?}"
    );
    // The total that the driver tells is not all that CUDA shows.
    let named = parse("l4=23034MiB");
    assert!(named.notes.is_empty());
    assert_eq!(named.device, parse("l4").device);
    assert!(named.device.least_total < Mib::new(23_034));
    assert_eq!(parse("l4=22579").device.least_total, Mib::new(22_579));
    assert!(parse("l4=22579").notes.is_empty());
}

#[test]
fn a_name_that_is_not_known_needs_a_total() {
    let named = parse("RTX 4070 Ti=12000");
    assert_eq!(
        (named.title().as_str(), named.device.total),
        ("RTX 4070 Ti", Mib::new(12_000))
    );
    assert_eq!(named.device.class.a100, Some(false));
    assert!(named.notes[0].starts_with("RTX 4070 Ti is not in the catalogue of products"));
    assert_eq!(parse("RTX 3090=24125").title(), "rtx-3090");
    assert_eq!(parse("80GB class=81000").device.class.a100, None);
    assert!(parse("A100 40GB MIG 1g.5gb=4864").device.class.mig);
    assert!(parse("Jetson Thor 128GB=125747").device.class.unified);
    assert!(error("GeForce RTX 3090 Ti").contains("did you mean rtx-3090?"));
    assert!(error("h100").contains("h100-80gb-sxm, h100-80gb-pcie, h100-94gb"));
    assert!(error("NVIDIA-H100-99GB").contains("did you mean h100-80gb-sxm"));
    assert!(error("no-such-thing").contains("is not in the catalogue of products; write a product"));
}

#[test]
fn profiles_stand_before_their_product_or_in_its_label() {
    for text in ["1g.10gb@a100-80gb", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"] {
        let named = parse(text);
        assert_eq!(named.title(), "1g.10gb of a100-80gb", "{text}");
        assert_eq!(named.device.total, Mib::new(9_728), "{text}");
        assert!(
            named.device.class.mig && named.device.class.a100 == Some(true),
            "{text}"
        );
    }
    assert_eq!(parse("1g.10gb@a100-80gb=9500").device.total, Mib::new(9_500));
    let odd = parse("1g.99gb@a100-80gb=9500");
    assert!(
        odd.notes[0].starts_with("a100-80gb has no MIG profile 1g.99gb"),
        "{odd:?}"
    );
    assert!(parse("1g.10gb@a100-80gb=9500").notes.is_empty());
    let whole = parse("1g.10gb@a100-80gb=81920");
    assert!(
        whole.notes[0].starts_with("1g.10gb of a100-80gb usually has 9728 MiB; 81920 MiB are taken"),
        "{whole:?}"
    );
    assert!(parse("1g.9gb@Some GPU=9500").device.class.mig);
    assert!(error("1g.99gb@a100-80gb").contains("a100-80gb has 1g.10gb"));
    assert!(error("1g.10gb@l40s").contains("l40s has no MIG"));
    assert!(error("1g.10gb@l41").contains("is not in the catalogue"));
}

#[test]
fn what_is_no_device_is_an_error_of_bounded_length() {
    for (text, part) in [
        ("", "is empty"),
        ("=81559", "has no product before its total"),
        ("0", "has a total of 0 MiB"),
        ("l40s=0", "has a total of 0 MiB"),
        ("-5", "\"-5\", which is no whole number"),
        ("l40s=-5", "\"-5\", which is no whole number"),
        ("80GiB", "\"80GiB\", which is no whole number of MiB"),
        ("79.6", "which is no whole number of MiB"),
        ("l40s=", "which is no whole number of MiB"),
        ("99999999999999999999999", "has a total above 16777216 MiB"),
        ("16777217", "has a total above 16777216 MiB"),
        ("a\u{1b}[2J=5", "cannot be printed"),
        ("@", "has no MIG profile before the @"),
        ("@h100-80gb-sxm", "has no MIG profile before the @"),
        ("@h100-80gb-sxm=5", "has no MIG profile before the @"),
        ("1g.10gb@", "has no product behind the @"),
        ("1g.10gb@=500", "has no product behind the @"),
        ("1g.10gb@1g.10gb@a100-80gb", "has more than one @"),
        ("h100-80gb-sxm=81559=5", "has more than one total"),
        ("a100", "did you mean a100-40gb, a100-80gb?"),
    ] {
        assert!(error(text).contains(part), "{text:?}: {}", error(text));
        assert!(error(text).contains("write a product such as"));
    }
    let long = "x".repeat(10_240);
    assert!(error(&long).contains("has more than 200 bytes"));
    assert!(error(&long).len() < 500);
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,40}", form in 0..6_usize) {
        let text = match form {
            0 => text,
            1 => format!("{text}=81559"),
            2 => format!("h100-80gb-sxm={text}"),
            3 => format!("{text}@a100-80gb"),
            4 => format!("1g.10gb@{text}"),
            _ => format!("{text}MiB"),
        };
        match Named::parse(Catalogue::embedded(), &text) {
            Ok(named) => prop_assert!(named.device.total > Mib::ZERO && named.device.least_total <= named.device.total),
            Err(error) => prop_assert!(error.to_string().len() < 1_000),
        }
    }
}
