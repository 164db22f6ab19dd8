//! `vramgate mig plan` as a user meets it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod kit;

use std::process::{Command, Stdio};

use kit::golden;
use serde_json::{Value, json};
use vramgate::device::catalogue::Catalogue;
use vramgate::mig::Geometry;

/// Exit code, standard output, standard error.
fn plan(args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_vramgate"))
        .args(["mig", "plan"])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

const H100: &str = "--product=h100-80gb-sxm";

#[test]
fn a_valid_layout_is_shown_with_its_placements() {
    let (code, text, _) = plan(&[H100, "1g.10gb=3", "4g.40gb=1"]);
    assert_eq!(code, 0);
    golden("mig-plan-valid", &text);
    let (code, text, _) = plan(&[
        "--product",
        "NVIDIA-A100-SXM4-80GB",
        "1g.10gb=1",
        "1g.10gb=1",
        "2g.20gb",
        "3g.40gb",
    ]);
    assert_eq!(code, 0);
    golden("mig-plan-three-slices-first", &text);
    let (code, text, _) = plan(&["--product", "NVIDIA-X1=295000", "3g.145gb=2"]);
    assert_eq!(code, 0);
    golden("mig-plan-unknown-product", &text);
}

/// G8.
#[test]
fn g8_geometries_of_the_field_are_valid() {
    for (product, profiles) in [
        ("h100-80gb-sxm", vec!["1g.10gb=3", "4g.40gb=1"]),
        ("h100-80gb-sxm", vec!["3g.40gb=2"]),
        ("h100-80gb-sxm", vec!["1g.10gb=7"]),
        ("h100-80gb-sxm", vec!["2g.20gb=3"]),
        ("a100-80gb", vec!["4g.40gb=1", "1g.10gb=2"]),
    ] {
        let mut args = vec!["--product", product];
        args.extend(&profiles);
        let (code, text, _) = plan(&args);
        assert_eq!(code, 0, "{profiles:?}: {text}");
        let rows = text.lines().filter(|line| line.contains(" MiB")).count();
        let instances: usize = profiles
            .iter()
            .map(|profile| profile.split_once('=').unwrap().1.parse::<usize>().unwrap())
            .sum();
        assert_eq!(rows, instances, "{text}");
    }
}

/// G9.
#[test]
fn g9_what_is_impossible_says_why() {
    for (name, args, reasons) in [
        (
            "vg304-sums",
            vec![H100, "4g.40gb=1", "3g.40gb=1", "1g.10gb=1"],
            vec!["compute slices add up to 8", "memory slices add up to 9"],
        ),
        (
            "vg304-maximum",
            vec![H100, "4g.40gb=2"],
            vec!["one GPU has at most 1"],
        ),
        ("vg304-eight-small", vec![H100, "1g.10gb=8"], vec!["at most 7"]),
        (
            "vg304-no-mig",
            vec!["--product=l40s", "1g.10gb=2"],
            vec!["has no MIG"],
        ),
        (
            "vg304-consumer",
            vec!["--product=rtx-4090", "1g.5gb=1"],
            vec!["has no MIG"],
        ),
        (
            "vg304-unknown-profile",
            vec!["--product=h200", "1g.20gb=1"],
            vec!["1g.18gb, 2g.35gb, 3g.71gb"],
        ),
        (
            "vg304-media",
            vec!["--product=rtx-pro-6000-blackwell", "1g.24gb+me", "1g.24gb+me.all"],
            vec!["media extensions"],
        ),
        (
            "vg304-several-gpus",
            vec![H100, "--gpus=2", "3g.40gb=5"],
            vec!["it takes 3 such GPUs"],
        ),
    ] {
        let (code, text, error) = plan(&args);
        assert_eq!((code, error.as_str()), (1, ""), "{args:?}");
        let first = text.lines().next().unwrap();
        assert!(first.starts_with("VG304: ") && first.len() < 256, "{first}");
        for reason in reasons {
            assert!(first.contains(reason), "{reason:?} in {first}");
        }
        golden(name, &text);
    }
}

#[test]
fn a_first_line_is_short_however_much_is_wrong() {
    let profiles: Vec<String> = (1..60)
        .map(|size| format!("1g.{}gb=9", 1_000_000 + size))
        .collect();
    let mut args = vec![H100];
    args.extend(profiles.iter().map(String::as_str));
    let (code, text, _) = plan(&args);
    assert_eq!(code, 1);
    let first = text.lines().next().unwrap();
    assert!(first.len() < 256, "{first}");
    assert!(text.lines().count() > 59, "{text}");
}

#[test]
fn the_page_shows_the_text_as_it_is() {
    assert!(include_str!("../docs/codes/VG304.md").contains(include_str!("texts/vg304-sums.txt")));
}

/// What a refusal proposes is a plan that is valid.
#[test]
fn proposed_geometries_are_valid() {
    let mut tried = 0;
    for asked in [
        vec!["4g.40gb=1", "3g.40gb=1", "1g.10gb=1"],
        vec!["4g.40gb=2"],
        vec!["1g.10gb=8"],
        vec!["3g.40gb=2", "2g.20gb=1"],
    ] {
        let mut args = vec![H100];
        args.extend(&asked);
        let (code, text, _) = plan(&args);
        assert_eq!(code, 1);
        for line in text.lines() {
            let Some((what, layouts)) = line.trim().split_once(": ") else {
                continue;
            };
            if !what.starts_with("what stands") && !what.starts_with("it takes") {
                continue;
            }
            for layout in layouts.split("; ") {
                let profiles: Vec<String> = layout
                    .split(" + ")
                    .map(|each| match each.split_once(" x ") {
                        Some((count, name)) => format!("{name}={count}"),
                        None => format!("{each}=1"),
                    })
                    .collect();
                let mut again = vec![H100];
                again.extend(profiles.iter().map(String::as_str));
                assert_eq!(plan(&again).0, 0, "{layout}");
                tried += 1;
            }
        }
    }
    assert!(tried > 10, "{tried}");
}

#[test]
fn the_configuration_is_one_that_the_mig_manager_reads() {
    let read = |text: &str| -> Value { serde_saphyr::from_str(text).unwrap() };
    let (code, text, _) = plan(&[
        H100,
        "-o",
        "yaml",
        "--name",
        "serving",
        "1g.10gb+me=1",
        "3g.40gb=1",
    ]);
    assert_eq!(code, 0);
    assert_eq!(
        read(&text),
        json!({"version": "v1", "mig-configs": {"serving": [
            {"devices": "all", "mig-enabled": true, "mig-devices": {"1g.10gb+me": 1, "3g.40gb": 1}},
        ]}})
    );
    let args = [
        "--product=h200",
        "-o=yaml",
        "--device-filter",
        "--gpus=4",
        "3g.71gb=5",
    ];
    let (code, text, _) = plan(&args);
    assert_eq!(code, 0);
    let filter = json!(["0x233510DE", "0x233B10DE"]);
    assert_eq!(
        read(&text),
        json!({"version": "v1", "mig-configs": {"planned": [
            {"device-filter": filter, "devices": [0, 1], "mig-enabled": true, "mig-devices": {"3g.71gb": 2}},
            {"device-filter": filter, "devices": [2], "mig-enabled": true, "mig-devices": {"3g.71gb": 1}},
        ]}})
    );
    // Nothing for the MIG manager, and the reason for people.
    let (code, text, error) = plan(&[H100, "-o", "yaml", "4g.40gb=2"]);
    assert_eq!((code, text.as_str()), (1, ""));
    assert!(error.starts_with("VG304: "), "{error}");
    let (code, _, error) = plan(&["--product=h20-141gb", "-o=yaml", "--device-filter", "3g.71gb"]);
    assert_eq!(code, 0);
    assert!(
        error.contains("PCI device ids of h20-141gb are not known"),
        "{error}"
    );
}

#[test]
fn the_document_holds_layout_or_finding() {
    let document = |args: &[&str]| -> (i32, Value) {
        let (code, text, _) = plan(args);
        (code, serde_json::from_str(&text).unwrap())
    };
    let (code, valid) = document(&["--product=a30", "-o", "json", "1g.6gb+me=1", "2g.12gb=1"]);
    assert_eq!(code, 0);
    assert_eq!(valid["kind"], "MigPlan");
    assert_eq!(valid["apiVersion"], "vramgate.io/v1alpha1");
    assert_eq!((&valid["valid"], &valid["findings"]), (&json!(true), &json!([])));
    assert_eq!(
        valid["gpus"][0]["instances"][1],
        json!({"profile": "1g.6gb+me", "resource": "nvidia.com/mig-1g.6gb.me", "id": 21, "start": 2, "size": 1,
            "computeSlices": 1, "memoryMiB": 5952})
    );
    let (code, not) = document(&["--product=l40s", "-o", "json", "1g.10gb=2"]);
    assert_eq!(code, 1);
    assert_eq!(
        (&not["valid"], &not["gpus"], &not["basis"]),
        (&json!(false), &json!([]), &Value::Null)
    );
    assert_eq!(
        (&not["findings"][0]["code"], &not["findings"][0]["severity"]),
        (&json!("VG304"), &json!("error"))
    );
}

#[test]
fn models_get_the_smallest_slice_that_surely_holds_them() {
    let (code, text, _) = plan(&[
        "--product=a100-80gb",
        "--model=Qwen/Qwen3-8B=2",
        "--model=Qwen/Qwen3-0.6B",
        "--",
        "--max-model-len=4096",
        "--max-num-seqs=16",
    ]);
    golden("mig-plan-models", &text);
    assert_eq!(code, 0, "{text}");
    let (code, _, error) = plan(&["--product=a100-80gb", "--model=Qwen/Qwen3-235B-A22B"]);
    assert_eq!(code, 2);
    assert!(error.contains("no MIG slice of a100-80gb"), "{error}");
    let (code, _, error) = plan(&["--product=a100-80gb", "--model=Qwen/Qwen3-8B", "--", "-tp", "2"]);
    assert_eq!(code, 2);
    assert!(error.contains("VG303"), "{error}");
}

#[test]
fn unusable_input_is_told_with_what_to_write() {
    for (args, texts) in [
        (vec![H100, "1g10gb=1"], vec!["names no MIG profile", "1g.10gb=4"]),
        (vec![H100, "1g.10gb=0"], vec!["has the count \"0\"", "from 1 to"]),
        (vec![H100, "1g.10gb=-1"], vec!["has the count"]),
        (vec![H100, "1g.10gb=99999999999"], vec!["has the count"]),
        (
            vec!["--product=h100", "1g.10gb=1"],
            vec!["--product", "did you mean"],
        ),
        (
            vec!["--product=81559", "1g.10gb=1"],
            vec!["a total without a product"],
        ),
        (
            vec!["--product=foo=1MiB", "1g.10gb=1"],
            vec!["--product", "foo=1MiB", "1 MiB", "too small", "nvidia-smi"],
        ),
        (vec!["--product=foo=3072", "1g.10gb=1"], vec!["too small"]),
        (
            vec!["--product=1g.10gb@a100-80gb", "1g.10gb=1"],
            vec!["name the whole GPU"],
        ),
        (
            vec![H100, "--name=a b", "1g.10gb=1"],
            vec!["--name", "value of a label"],
        ),
        (vec![H100, "--gpus=0", "1g.10gb=1"], vec!["--gpus"]),
        (vec![H100], vec!["PROFILE=COUNT"]),
        (
            vec![H100, "1g.10gb=1", "--", "--max-model-len=1"],
            vec!["without --model"],
        ),
        (vec![H100, "--model=--x"], vec!["begins with a dash"]),
        (vec![H100, "--model=m", "--engine=vlm"], vec!["did you mean vllm"]),
    ] {
        let (code, text, error) = plan(&args);
        assert_eq!((code, text.as_str()), (2, ""), "{args:?}: {error}");
        for text in texts {
            assert!(error.contains(text), "{text:?} in {error}");
        }
    }
}

/// The table of the page is what the catalogue says.
#[test]
fn the_page_lists_every_product_with_its_profiles() {
    let page = include_str!("../docs/mig.md");
    for product in Catalogue::embedded().products() {
        let Some(geometry) = Geometry::of(product) else {
            continue;
        };
        let plain: Vec<String> = geometry
            .profiles
            .iter()
            .map(|profile| profile.name.to_string())
            .filter(|name| !name.contains(['+', '-']))
            .collect();
        let row = format!(
            "| `{}` | {} | {} | {} | {} |",
            product.id,
            geometry.units,
            geometry.compute_slices,
            plain.join(", "),
            geometry.every().len()
        );
        assert!(page.contains(&row), "docs/mig.md lacks the row\n{row}");
    }
}
