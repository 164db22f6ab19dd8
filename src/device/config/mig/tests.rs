use super::*;
use crate::device::config::Document;

fn read(text: &str) -> Reading {
    match Document::read(text) {
        Some(Document::Mig(reading)) => reading,
        other => panic!("{text}: {other:?}"),
    }
}

const RIGHT: &str = "version: v1\nmig-configs:\n  all-disabled:\n  - devices: all\n    mig-enabled: false\n  split:\n  \
                     - device-filter: [\"0x233010DE\", \"0x20B210DE\"]\n    devices: [0, 1]\n    mig-enabled: true\n    \
                     mig-devices: {1g.10gb: 3, 4g.40gb: 1, 1g.20gb: 0}\n  - device-filter: \"0x20B710DE\"\n    devices: \
                     all\n    mig-enabled: true\n    mig-devices: {}\n";

#[test]
fn a_right_document_is_read() {
    let Reading {
        configs,
        names,
        faults,
    } = read(RIGHT);
    assert_eq!(faults, []);
    assert_eq!(names, ["all-disabled", "split"]);
    let split = &configs[1].entries;
    assert_eq!(split[0].profiles, [("1g.10gb".into(), 3), ("4g.40gb".into(), 1)]);
    assert_eq!(
        (split[0].field.as_str(), split[0].line),
        ("mig-configs.split[0]", Some(7))
    );
    assert!(split[0].filter[0].is("0x2330") && split[0].filter[1].is("0x20b2"));
    assert!(!split[0].filter[0].is("0x20B2") && !DeviceId(0x2330_1002).is("0x2330"));
    assert!(!configs[0].entries[0].enabled && configs[0].entries[0].filter.is_empty());
}

#[test]
fn what_mig_parted_refuses_is_refused_at_its_line() {
    let with = |entry: &str| format!("version: v1\nmig-configs:\n  a:\n  - {entry}\n");
    for (text, field) in [
        (
            "mig-configs: {a: [{devices: all, mig-enabled: false}]}".to_owned(),
            "",
        ),
        (
            "version: v2\nmig-configs: {a: [{devices: all, mig-enabled: false}]}".to_owned(),
            "version",
        ),
        ("version: v1\nmig-configs: {}".to_owned(), "mig-configs"),
        ("version: v1\nmig-configs: {a: []}".to_owned(), "mig-configs.a"),
        ("version: v1\nmig-configs: {a: all}".to_owned(), "mig-configs.a"),
        (
            "version: v1\nmig-configs: {a: [{devices: all, mig-enabled: false}]}\nx: 1".to_owned(),
            "x",
        ),
        (with("{mig-enabled: false}"), "mig-configs.a[0]"),
        (with("{devices: all}"), "mig-configs.a[0]"),
        (with("{devices: all, mig-enabled: true}"), "mig-configs.a[0]"),
        (
            with("{devices: some, mig-enabled: false}"),
            "mig-configs.a[0].devices",
        ),
        (
            with("{devices: [-1], mig-enabled: false}"),
            "mig-configs.a[0].devices",
        ),
        (
            with("{devices: all, mig-enabled: \"true\"}"),
            "mig-configs.a[0].mig-enabled",
        ),
        (
            with("{devices: all, mig-enabled: false, mig-devices: {1g.10gb: 1}}"),
            "mig-configs.a[0].mig-devices",
        ),
        (
            with("{devices: all, mig-enabled: true, mig-devices: {small: 1}}"),
            "mig-configs.a[0].mig-devices.small",
        ),
        (
            with("{devices: all, mig-enabled: true, mig-devices: {1g.10gb: many}}"),
            "mig-configs.a[0].mig-devices[\"1g.10gb\"]",
        ),
        (
            with("{devices: all, mig-enabled: true, migDevices: {}, mig-devices: {}}"),
            "mig-configs.a[0].migDevices",
        ),
        (
            with("{device-filter: 9008, devices: all, mig-enabled: false}"),
            "mig-configs.a[0].device-filter",
        ),
        (
            with("{device-filter: [H100], devices: all, mig-enabled: false}"),
            "mig-configs.a[0].device-filter[0]",
        ),
    ] {
        let Reading { configs, faults, .. } = read(&text);
        let fields: Vec<&str> = faults.iter().map(|fault| fault.field.as_str()).collect();
        assert_eq!(fields, [field], "{text}");
        assert!(faults[0].refused && faults[0].line.is_some(), "{faults:?}");
        assert!(configs.is_empty() || !field.starts_with("mig-configs"), "{text}");
    }
    let broken = read("version: v1\nmig-configs:\n  a: [\n");
    assert_eq!(broken.faults.len(), 1);
}
