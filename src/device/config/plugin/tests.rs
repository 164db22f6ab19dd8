use super::*;

/// `line field` of each fault, with `!` where the plugin refuses the document.
fn faults(text: &str) -> Vec<String> {
    let reading = read(text);
    let refused = reading.faults.iter().any(|fault| fault.refused);
    assert_eq!(reading.config.is_none(), refused, "{text}");
    reading
        .faults
        .iter()
        .map(|fault| {
            assert!(
                fault.message.len() + fault.field.len() < 230 && !fault.message.ends_with('.'),
                "{}: {}",
                fault.field,
                fault.message
            );
            let line = fault.line.map_or("-".to_owned(), |line| line.to_string());
            format!("{line} {}{}", fault.field, if fault.refused { "!" } else { "" })
        })
        .collect()
}

fn shared(field: &str, entry: &str) -> String {
    format!("version: v1\nsharing:\n  {field}:\n    resources:\n    - {entry}\n")
}

#[test]
fn what_the_plugin_accepts_is_read() {
    let text = "version: v1\nflags:\n  migStrategy: mixed\n  plugin:\n    sharedDevicesAllocationPolicy: packed\n    \
                deviceListStrategy: [envvar, cdi-cri]\nsharing:\n  timeSlicing:\n    renameByDefault: true\n    resources:\n    \
                - name: nvidia.com/gpu\n      replicas: 4\n    - name: mig-1g.10gb\n      replicas: 2\n";
    let Reading { config, faults } = read(text);
    assert_eq!(faults, []);
    let config = config.unwrap();
    assert_eq!(config.allocation, AllocationPolicy::Packed);
    assert_eq!(config.mig_strategy, Some(MigStrategy::Mixed));
    let slots = |count| NonZeroU32::new(count).unwrap();
    assert_eq!(
        config.sharing_of("nvidia.com/gpu.shared"),
        Sharing::TimeSliced(slots(4))
    );
    assert_eq!(
        config.sharing_of("nvidia.com/mig-1g.10gb.shared"),
        Sharing::TimeSliced(slots(2))
    );
    assert_eq!(config.sharing_of("nvidia.com/mig-2g.20gb"), Sharing::Exclusive);
    assert!(!config.shared.unwrap().fail_requests_greater_than_one);
    // Empty is v1 with nothing shared.
    for text in [
        "",
        "version: v1",
        "version: \"\"\n",
        "flags: null\nsharing: null\n",
        "{}",
    ] {
        assert_eq!(faults_of(text), [] as [String; 0], "{text}");
        assert_eq!(read(text).config.unwrap().shared, None);
    }
    // Go's decoder does not tell upper from lower case in the names of a structure.
    let config = read("Version: v1\nsharing: {timeslicing: {resources: [{name: gpu, replicas: 3}]}}");
    assert_eq!(
        config.config.unwrap().sharing_of("nvidia.com/gpu"),
        Sharing::TimeSliced(slots(3))
    );
}

fn faults_of(text: &str) -> Vec<String> {
    faults(text)
}

#[test]
fn what_the_plugin_refuses_is_refused_at_its_line() {
    for (text, expected) in [
        ("version: v2", "1 version!"),
        ("version: 1", "1 version!"),
        ("[]", "1 !"),
        ("version: v1\nversion: v1\n", "2 !"),
        ("version: [v1", "1 !"),
        ("version: v1\n---\nversion: v1\n", "- !"),
        ("flags: {migStrategy: multi}", "1 flags.migStrategy!"),
        (
            "flags:\n  failOnInitError: \"false\"\n",
            "2 flags.failOnInitError!",
        ),
        (
            "flags: {plugin: {deviceListStrategy: env}}",
            "1 flags.plugin.deviceListStrategy!",
        ),
        (
            "flags: {plugin: {deviceListStrategy: [envvar, x]}}",
            "1 flags.plugin.deviceListStrategy[1]!",
        ),
        (
            "flags: {plugin: {deviceIDStrategy: name}}",
            "1 flags.plugin.deviceIDStrategy!",
        ),
        (
            "flags: {plugin: {sharedDevicesAllocationPolicy: spread}}",
            "1 flags.plugin.sharedDevicesAllocationPolicy!",
        ),
        ("sharing: 4", "1 sharing!"),
        ("sharing:\n  timeSlicing: {}\n", "2 sharing.timeSlicing!"),
        (
            "sharing: {timeSlicing: {resources: []}}",
            "1 sharing.timeSlicing.resources!",
        ),
        (
            &shared("timeSlicing", "{name: nvidia.com/gpu, replicas: 1}"),
            "5 sharing.timeSlicing.resources[0].replicas!",
        ),
        (
            &shared("timeSlicing", "{name: nvidia.com/gpu, replicas: \"4\"}"),
            "5 sharing.timeSlicing.resources[0].replicas!",
        ),
        (
            &shared("timeSlicing", "{name: nvidia.com/gpu, replicas: 4.5}"),
            "5 sharing.timeSlicing.resources[0].replicas!",
        ),
        (
            &shared("timeSlicing", "{name: nvidia.com/gpu, replicas: 99999999999}"),
            "5 sharing.timeSlicing.resources[0].replicas!",
        ),
        (
            &shared("timeSlicing", "{name: nvidia.com/gpu}"),
            "5 sharing.timeSlicing.resources[0]!",
        ),
        (
            &shared("timeSlicing", "{replicas: 4}"),
            "5 sharing.timeSlicing.resources[0]!",
        ),
        (
            &shared(
                "timeSlicing",
                &format!("{{name: {}, replicas: 4}}", "a".repeat(60)),
            ),
            "5 sharing.timeSlicing.resources[0].name!",
        ),
        (
            &shared(
                "timeSlicing",
                "{name: nvidia.com/gpu, replicas: 4, devices: some}",
            ),
            "5 sharing.timeSlicing.resources[0].devices!",
        ),
        (
            &shared("mps", "{name: nvidia.com/gpu, replicas: 49}"),
            "5 sharing.mps.resources[0].replicas!",
        ),
        (
            &shared("mps", "{name: nvidia.com/mig-1g.10gb, replicas: 4}"),
            "5 sharing.mps.resources[0].name!",
        ),
        (
            "flags: {migStrategy: mixed}\nsharing: {mps: {resources: [{name: gpu, replicas: 2}]}}",
            "2 sharing.mps!",
        ),
    ] {
        assert_eq!(faults(text), [expected], "{text}");
    }
}

#[test]
fn what_has_no_effect_is_told_and_the_rest_is_used() {
    for (text, expected) in [
        (
            shared("timeSlicing", "{name: nvidia.com/gpu, replicas: 4, devices: [0, 1]}"),
            "5 sharing.timeSlicing.resources[0].devices",
        ),
        (
            shared("timeSlicing", "{name: nvidia.com/gpu, replicas: 4, devices: 2}"),
            "5 sharing.timeSlicing.resources[0].devices",
        ),
        (
            shared("timeSlicing", "{name: nvidia.com/gpu, replicas: 4, rename: gpu-small}"),
            "5 sharing.timeSlicing.resources[0].rename",
        ),
        (
            shared("timeSlicing", "{name: nvidia.com/gpu, replica: 4, replicas: 4}"),
            "5 sharing.timeSlicing.resources[0].replica",
        ),
        (
            shared("timeSlicing", "{name: nvidia.com/gpus, replicas: 4}"),
            "5 sharing.timeSlicing.resources[0].name",
        ),
        (
            "flags: {migStrategy: single}\nsharing: {timeSlicing: {resources: [{name: mig-1g.10gb, replicas: 2}]}}"
                .to_owned(),
            "2 sharing.timeSlicing.resources[0].name",
        ),
        (
            "sharing:\n  timeSlicing: {resources: [{name: gpu, replicas: 2}]}\n  mps: {resources: [{name: gpu, replicas: \
             2}]}\n"
                .to_owned(),
            "2 sharing.timeSlicing",
        ),
        (
            "version: v1\nshareing: {}\n".to_owned(),
            "2 shareing",
        ),
        ("resources: {gpus: [{pattern: x, name: y}]}".to_owned(), "1 resources"),
    ] {
        assert_eq!(faults(&text), [expected], "{text}");
    }
    let both = read(
        "sharing:\n  timeSlicing: {resources: [{name: gpu, replicas: 2}]}\n  mps: {resources: [{name: gpu, replicas: 3}]}",
    );
    let shared = both.config.unwrap().shared.unwrap();
    assert_eq!(shared.mode, Mode::Mps);
    assert!(shared.fail_requests_greater_than_one);
}

#[test]
fn hostile_documents_end_soon_with_one_fault() {
    let bomb = format!(
        "a: &a [x,x,x,x,x,x,x,x,x,x]\n{}sharing: {{timeSlicing: *i}}\n",
        ["b", "c", "d", "e", "f", "g", "h", "i"]
            .iter()
            .zip(["a", "b", "c", "d", "e", "f", "g", "h"])
            .map(|(name, before)| format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 10].join(",")))
            .collect::<Vec<_>>()
            .concat()
    );
    let deep = format!("sharing: {}", "{a: ".repeat(5_000));
    let long = format!("sharing: {{timeSlicing: {{x: {}}}}}", "y".repeat(MAX_BYTES_HERE));
    let many = format!(
        "sharing:\n  timeSlicing:\n    resources:\n{}",
        "    - {}\n".repeat(50_000)
    );
    for text in [bomb, deep, long, many] {
        let reading = read(&text);
        assert!(reading.config.is_none());
        assert!(
            (1..=20).contains(&reading.faults.len()),
            "{}",
            reading.faults.len()
        );
    }
}

const MAX_BYTES_HERE: usize = crate::device::config::MAX_BYTES;
