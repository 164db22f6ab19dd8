//! PyTorch, TensorFlow and JAX: launchers, servers, jobs of Kubeflow.

use serde_json::{Value, json};

use super::{Maps, check, env, gpus, templates};

fn trained(command: &[&str]) -> Value {
    json!({"image": "registry.example/train:1", "command": command})
}

#[test]
fn launchers_of_pytorch_are_known() {
    for command in [
        &["torchrun", "train.py"][..],
        &["torchrun", "--nproc_per_node=gpu", "train.py"],
        &["python", "-m", "torch.distributed.run", "train.py"],
        &["accelerate", "launch", "--num_processes", "4", "train.py"],
        &["python", "-m", "accelerate.commands.launch", "train.py"],
        &["deepspeed", "train.py", "--deepspeed", "ds.json"],
        &["torchserve", "--start", "--model-store", "/m"],
        &[
            "bash",
            "-c",
            "pip install x && accelerate launch \\\n  --num_machines 2 train.py",
        ],
    ] {
        check(trained(command), "pytorch - uncapped - engine-auto 1/1/1=2");
    }
}

#[test]
fn a_stated_number_of_processes_is_the_number_of_devices() {
    check(
        trained(&["torchrun", "--nproc_per_node", "1", "train.py"]),
        "pytorch - uncapped - engine-auto 1/1/1=1",
    );
    check(
        trained(&["deepspeed", "--num_gpus=8", "train.py"]),
        "pytorch - uncapped - engine-auto 1/1/1=8 starts=unknown",
    );
}

#[test]
fn images_called_after_a_framework_are_known() {
    for (image, engine) in [
        (
            "pytorch/pytorch:2.3.0-cuda12.1",
            "pytorch - uncapped - engine-auto",
        ),
        (
            "nvcr.io/nvidia/pytorch:24.04-py3",
            "pytorch - uncapped - engine-auto",
        ),
        (
            "x.dkr.ecr.y.amazonaws.com/pytorch-training:2.3.0-gpu",
            "pytorch - uncapped - engine-auto",
        ),
        (
            "x.dkr.ecr.y.amazonaws.com/huggingface-pytorch-inference:2.1.0",
            "pytorch - uncapped - engine-auto",
        ),
        (
            "nvcr.io/nvidia/tensorflow:24.04-tf2-py3",
            "tensorflow - uncapped - engine-auto",
        ),
        ("nvcr.io/nvidia/jax:24.10-py3", "jax - of-total 0.75 default"),
    ] {
        check(
            json!({"image": image, "command": ["python", "train.py"], "resources": gpus(1)}),
            &format!("{engine} 1/1/1=1"),
        );
    }
}

#[test]
fn variables_name_the_framework_where_nothing_else_does() {
    for (variable, value, expected) in [
        (
            "XLA_PYTHON_CLIENT_MEM_FRACTION",
            "0.4",
            "jax - of-total 0.4 env 1/1/1=1",
        ),
        (
            "XLA_PYTHON_CLIENT_PREALLOCATE",
            "false",
            "jax - uncapped - engine-auto 1/1/1=1",
        ),
        (
            "TF_FORCE_GPU_ALLOW_GROWTH",
            "true",
            "tensorflow - uncapped - engine-auto 1/1/1=1",
        ),
        (
            "PYTORCH_CUDA_ALLOC_CONF",
            "expandable_segments:True",
            "pytorch - uncapped - engine-auto 1/1/1=1",
        ),
    ] {
        check(
            json!({"image": "registry.example/train:1", "command": ["python", "train.py"], "env": env(&[(variable, value)]),
                "resources": gpus(1)}),
            expected,
        );
    }
}

#[test]
fn jobs_of_kubeflow_hold_templates_by_role() {
    let role = |command: &[&str], count: u32| json!({"replicas": 2, "template": {"spec": {"containers": [{"name": "c", "image": "x:1", "command": command, "resources": gpus(count)}]}}});
    let pytorch = json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "x"},
        "spec": {"pytorchReplicaSpecs": {"Master": role(&["torchrun", "t.py"], 1), "Worker": role(&["torchrun", "t.py"], 4)}}});
    assert_eq!(
        templates(&pytorch, &Maps::default()),
        [
            "spec.pytorchReplicaSpecs.Master.template x2: pytorch - uncapped - engine-auto 1/1/1=1",
            "spec.pytorchReplicaSpecs.Worker.template x2: pytorch - uncapped - engine-auto 1/1/1=4",
        ]
    );
    let mpi = json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "x"},
        "spec": {"mpiReplicaSpecs": {"Worker": role(&["/usr/sbin/sshd", "-De"], 1)}}});
    let found = templates(&mpi, &Maps::default());
    assert!(
        found[0].contains("x2: unknown - unknown - unresolved 1/1/1=1"),
        "{found:?}"
    );
}
