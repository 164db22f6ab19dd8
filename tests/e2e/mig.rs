//! MIG slices: what fits one, what no node offers, what does not add up, and slices that several pods share.

use crate::api::{assert_first_line, eventually};
use crate::manifests::{GpuNode, Pod};
use crate::scenario::Scenario;

const SMALL: &str = "nvidia.com/mig-1g.10gb";
const SMALL_MIB: u32 = 9_984;

/// A node with slices, which vramgate knows: to ask more of it than it has is refused.
fn sliced(s: &Scenario, node: &GpuNode) {
    s.unknown_node(node);
    let probe = small("probe", "0.01").asks(SMALL, 64).on_node(node.name());
    eventually("vramgate knows the slices", 20, || {
        s.dry_run(&probe).text().contains("VG703").then_some(())
    });
}

fn of(name: &str, args: &[&str]) -> Pod {
    Pod::vllm(name, "0.90").args(args).asks(SMALL, 1)
}

/// A small model with a fraction of a small slice.
fn small(name: &str, fraction: &str) -> Pod {
    Pod::vllm(name, fraction).asks(SMALL, 1)
}

#[test]
fn mig_g3_a_model_that_is_too_large_for_its_slice() {
    let s = Scenario::new("mig-g3");
    sliced(&s, &GpuNode::h100("mig-g3-n1").mig("1g.10gb", SMALL_MIB, 7, 1));
    let pod = of(
        "chat",
        &["--model=meta-llama/Llama-2-13b-chat-hf", "--quantization=fp8"],
    );
    let words = ["VG301", "12599 MiB", "9984 MiB", "mig-2g.20gb"];
    s.create(&pod).denied("a model of 13B on 1g.10gb", &words);
    let text = s.kubectl(&["create", "-f", "-"], Some(&s.placed(&pod)));
    for word in words.into_iter().chain(["Forbidden"]) {
        assert!(text.contains(word), "kubectl does not show {word}:\n{text}");
    }
    assert_first_line(&text);
    assert!(!s.exists("chat"), "nothing was created");

    let fitting = of("chat", &["--model=Qwen/Qwen3-0.6B", "--max-model-len=4096"]);
    s.create(&fitting).admitted("a small model on the same slice");
    s.wait_running(1, 30);
}

#[test]
fn mig_g7_a_profile_that_no_node_offers() {
    let s = Scenario::new("mig-g7");
    sliced(&s, &GpuNode::h100("mig-g7-n1").mig("1g.10gb", SMALL_MIB, 7, 1));
    let asking =
        |profile: &str| of("chat", &["--model=Qwen/Qwen3-0.6B", "--max-model-len=4096"]).asks(profile, 1);
    let pod = asking("nvidia.com/mig-4g.40gb");
    let words = [
        "VG302",
        "no node offers nvidia.com/mig-4g.40gb",
        "node mig-g7-n1 could be cut into such slices",
        "no GPU pod runs there",
        SMALL,
    ];
    s.create(&pod).denied("a profile of the product", &words);
    let text = s.kubectl(&["create", "-f", "-"], Some(&s.placed(&pod)));
    for word in words {
        assert!(text.contains(word), "kubectl does not show {word}:\n{text}");
    }
    assert_first_line(&text);
    s.create(&asking("nvidia.com/mig-1g.18gb")).denied(
        "a profile of another product",
        &["VG302", "no such profile", "1g.20gb"],
    );

    // Who runs on the node is told as well.
    s.create(&asking(SMALL).named("holder"))
        .admitted("what the node offers");
    s.wait_running(1, 30);
    eventually("the holder is seen", 20, || {
        let text = s.dry_run(&pod).text();
        (text.contains("VG302") && !text.contains("no GPU pod runs there")).then_some(())
    });
}

#[test]
fn mig_g12_slices_do_not_add_up() {
    let s = Scenario::new("mig-g12");
    sliced(&s, &GpuNode::h100("mig-g12-n1").mig("1g.10gb", SMALL_MIB, 7, 1));
    let model = ["--model=Qwen/Qwen3-0.6B", "--max-model-len=4096"];
    let ranks = of("ranks", &[model[0], model[1], "--tensor-parallel-size=2"]).asks(SMALL, 2);
    s.create(&ranks)
        .denied("two ranks over two slices", &["VG303", "one slice only"]);
    s.create(&of("several", &model).asks(SMALL, 2))
        .denied("one rank with two slices", &["VG305", "ask for 1"]);
    // What the texts propose.
    s.create(&of("one", &model)).admitted("one rank on one slice");
}

#[test]
fn mig_s09_pods_share_a_slice() {
    let s = Scenario::new("mig-s09");
    sliced(&s, &GpuNode::h100("mig-s09-n1").mig("1g.10gb", SMALL_MIB, 1, 3));
    for name in ["first", "second"] {
        s.create(&small(name, "0.40")).admitted(name);
    }
    s.wait_running(2, 30);
    s.create(&small("third", "0.40"))
        .denied("a third of 0.40", &["VG201", "9984 MiB", "first", "second"]);
    let row = s
        .rows("mig-s09-n1")
        .into_iter()
        .find(|row| row["resource"] == SMALL)
        .expect("top shows the slice");
    assert_eq!(row["totalMiB"], SMALL_MIB, "{row}");
    assert_eq!(row["holders"].as_array().map(Vec::len), Some(2), "{row}");

    // The sum is on the slice, with what each takes beside its fraction.
    s.delete("second", 0);
    s.wait_gone("second", 20);
    s.create_eventually(&small("second", "0.40"), 10);
    s.delete("first", 0);
    s.delete("second", 0);
    s.wait_gone("second", 20);
    s.create_eventually(&small("half", "0.46"), 10);
    s.create(&small("other-half", "0.46"))
        .denied("0.46 beside 0.46", &["VG201", "half", "evidence"]);
    s.create(&small("other-half", "0.36")).admitted("what is left");
}
