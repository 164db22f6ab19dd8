//! Every command and flag. The help texts are what a user reads first.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

mod policy;

pub(super) use policy::{
    LintFailOn, Policy, PolicyCommand, PolicyDiff, PolicyExplain, PolicyExportVap, PolicyLint, PolicyTest,
    TestOutput,
};
mod check;

pub(super) use check::{Check, CheckOutput, FailOn, Level};

/// Counts GPU memory at admission, so that a pod is refused before it runs out of it.
#[derive(Debug, Parser)]
#[command(name = "vramgate", version, propagate_version = true, max_term_width = 100)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the webhook
    Serve(Serve),
    /// Judge manifests as the webhook would; exit 0 admitted, 1 denied, 2 unusable input
    Check(Check),
    /// Show what each container starts and how much GPU memory that takes; needs no cluster
    Explain(Explain),
    /// Tell whether a model fits a device under an engine's arguments; needs no cluster. Exit 0 fits, doubtful or unknown,
    /// 1 does not fit, 2 unusable input
    Fit(Fit),
    /// Plan how GPUs are cut into MIG slices
    Mig(Mig),
    /// Tell whether GPUs should be shared, how, and what to apply for it; needs no cluster. Exit 0 they suffice, 1 they do
    /// not, 2 unusable input
    Advise(Advise),
    /// Show the devices of a cluster, who shares them and what is promised
    Top(Top),
    /// Write, test and compare policies
    Policy(Policy),
    /// Plan what to change in a cluster whose devices are above their budget already. Exit 0 that is enough, 1 something
    /// stays above, 2 unusable input
    Plan(super::plan::Arguments),
    /// Make certificates for development: ca.crt, tls.crt and tls.key
    Certs(Certs),
    /// Read a model's own files, and print an entry for spec.models of a policy
    Model(Model),
    /// Print the webhook registrations for `kubectl apply -f -`
    WebhookConfig(WebhookConfig),
    /// Print the custom resource definitions for `kubectl apply -f -`
    Crds(Crds),
    /// Take vramgate.io/gpu-ppm off every node, before vramgate is removed from a cluster
    UninstallNodeResources(UninstallNodeResources),
    /// Find out whether the API server asks vramgate: sends it, as a dry run, a pod that vramgate must remark on. Exit 0 it
    /// was remarked on, 2 it was not
    Probe(Probe),
}

#[derive(Debug, Args)]
pub(super) struct UninstallNodeResources {
    /// The cluster (else $KUBECONFIG, ~/.kube/config, or the one that this process runs in)
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Delete the registrations first, so that no pod is changed or held up any more
    #[arg(long)]
    pub(super) registrations: bool,
    /// Then scale this Deployment to zero and wait until its pods are gone: a replica would write the resource again
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(super) deployment: Option<String>,
    /// How long to wait for them, as in 90s or 2m
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration)]
    pub(super) wait: Duration,
}

#[derive(Debug, Args)]
pub(super) struct Probe {
    /// The cluster (else $KUBECONFIG, ~/.kube/config, or the one that this process runs in)
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Namespace of the pod that is asked for (else that of the kubeconfig or of this pod)
    #[arg(long, value_name = "NAME")]
    pub(super) namespace: Option<String>,
    /// How long to try, as in 30s or 2m
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(super) wait: Duration,
}

/// What results are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// For people.
    Text,
    /// A versioned document.
    Json,
}

fn output(text: &str) -> Result<Output, String> {
    match text {
        "text" => Ok(Output::Text),
        "json" => Ok(Output::Json),
        _ => Err("use text or json".to_owned()),
    }
}

fn yaml_or_json(text: &str) -> Result<Output, String> {
    match text {
        "yaml" => Ok(Output::Text),
        "json" => Ok(Output::Json),
        _ => Err("use yaml or json".to_owned()),
    }
}

/// Where the cluster is read from.
#[derive(Debug, Args)]
pub(super) struct ClusterArgs {
    /// Objects of the cluster as `kubectl get nodes,pods,… -A -o yaml` prints them; a file, a folder or `-`. Repeat it
    /// for several
    #[arg(long, value_name = "FILE")]
    pub(super) cluster_state: Vec<PathBuf>,
    /// Read the live cluster that this file describes (else $KUBECONFIG or ~/.kube/config)
    #[arg(long, value_name = "FILE", conflicts_with = "cluster_state")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Folder with GpuSharingPolicy files; without one the built-in default applies
    #[arg(long, value_name = "DIR")]
    pub(super) policy_dir: Option<PathBuf>,
}

/// What the last column of `explain` says.
const EXPLAIN_READ: &str = "\
READ (`resolvable` in JSON) says how much is known from the pod alone:
  full     every value
  partial  a value is not known, or stands in another object (a ConfigMap, the InferenceService of
           a runtime) that can change until the pod starts; `dependsOn` in JSON names it
  none     neither the model nor an amount of memory is known";

#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_READ)]
pub(super) struct Explain {
    /// Manifests: files, folders or `-`. ConfigMaps among them are context
    #[arg(value_name = "FILE", required_unless_present = "code")]
    pub(super) files: Vec<PathBuf>,
    /// Print what a finding's code means and what to do about it (VG201); `list` prints every code with its title
    #[arg(long, value_name = "CODE", conflicts_with_all = ["files", "policy_dir"])]
    pub(super) code: Option<String>,
    /// Folder with GpuSharingPolicy files, for images that they describe
    #[arg(long, value_name = "DIR")]
    pub(super) policy_dir: Option<PathBuf>,
    /// text or json
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = output)]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
#[command(after_help = FIT_EXAMPLES)]
pub(super) struct Fit {
    /// The model: a published name, an id of the catalogue or of --models. Needed unless the arguments name one
    #[arg(long, value_name = "ID")]
    pub(super) model: Option<String>,
    /// Format of its weights, where its name does not tell: fp8, nvfp4, mxfp4, awq-int4, gptq-int4, w4a16, bnb-4bit,
    /// gguf-q4_k_m …, or an engine's own name
    #[arg(long, value_name = "FORMAT")]
    pub(super) quantization: Option<String>,
    /// The device of each rank: PRODUCT, PROFILE@PRODUCT, either with =MIB behind it, or MIB alone
    #[arg(long, value_name = "DEVICE", required_unless_present = "score")]
    pub(super) device: Option<String>,
    /// Devices that the container gets; as many as the arguments ask for by default
    #[arg(long, value_name = "N")]
    pub(super) devices: Option<u32>,
    /// The engine: vllm, sglang, tgi, tei, trtllm, llama.cpp or lmdeploy
    #[arg(long, value_name = "NAME", default_value = "vllm")]
    pub(super) engine: String,
    /// Its release, as in 0.11.0, 0.7.x, 0.11-0.12 or 0.21+
    #[arg(long, value_name = "VERSION")]
    pub(super) engine_version: Option<String>,
    /// Entries of models of your own, as `vramgate model add` prints them. Repeat it for several
    #[arg(long, value_name = "FILE")]
    pub(super) models: Vec<PathBuf>,
    /// Answer for every start-up log of these files, and print how well the answers agree with what was measured
    #[arg(
        long,
        value_name = "FILE",
        num_args = 1..,
        conflicts_with_all = ["model", "quantization", "device", "devices", "engine_version", "arguments"]
    )]
    pub(super) score: Vec<PathBuf>,
    /// text or json
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = output)]
    pub(super) output: Output,
    /// What follows the command of the engine's server, behind `--`
    #[arg(value_name = "ENGINE ARGS", last = true, allow_hyphen_values = true)]
    pub(super) arguments: Vec<String>,
}

const FIT_EXAMPLES: &str = "\
Examples:
  vramgate fit --model Qwen/Qwen3-32B --device h100-80gb-sxm -- --max-model-len 16384
  vramgate fit --model google/gemma-3-1b-it --device 1g.5gb@a100-40gb -- --enforce-eager
  vramgate fit --model openai/gpt-oss-120b --device 'RTX PRO 6000=97280' -- -tp 2

Exit codes: 0 fits, doubtful or unknown (the reason is told), 1 does not fit, 2 unusable input.";

#[derive(Debug, Args)]
pub(super) struct Top {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// Show who holds the memory
    #[arg(long)]
    pub(super) holders: bool,
    /// text or json
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = output)]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
pub(super) struct Model {
    #[command(subcommand)]
    pub(super) command: ModelCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum ModelCommand {
    /// Print an entry made from config.json, *.safetensors and their index, or a GGUF file
    Add(ModelAdd),
}

#[derive(Debug, Args)]
pub(super) struct ModelAdd {
    /// Files of one model, its folder, or `-` for standard input. What a file is, its content tells
    #[arg(value_name = "FILE", required = true)]
    pub(super) files: Vec<PathBuf>,
    /// Short name of the entry; else the last part of the first --name, or the folder's name
    #[arg(long, value_name = "ID")]
    pub(super) id: Option<String>,
    /// Name under which the model is published, as in org/model. Repeat it for several
    #[arg(long = "name", value_name = "NAME")]
    pub(super) names: Vec<String>,
    /// yaml or json
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml", value_parser = yaml_or_json)]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
pub(super) struct Mig {
    #[command(subcommand)]
    pub(super) command: MigCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum MigCommand {
    /// Find a layout of MIG profiles on a product, or say why there is none; needs no cluster. Exit 0 valid, 1 impossible,
    /// 2 unusable input
    Plan(MigPlan),
}

/// What `mig plan` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PlanOutput {
    /// For people.
    Text,
    /// A versioned document.
    Json,
    /// A configuration of the MIG manager.
    Yaml,
}

#[derive(Debug, Args)]
#[command(after_help = MIG_EXAMPLES)]
pub(super) struct MigPlan {
    /// The GPU: a product such as h100-80gb-sxm or the value of a node's label nvidia.com/gpu.product; PRODUCT=MIB for one
    /// that the catalogue lacks
    #[arg(long, value_name = "PRODUCT")]
    pub(super) product: String,
    /// GPUs over which the slices may be spread
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) gpus: u32,
    /// Name of the configuration in YAML, which is what the node's label nvidia.com/mig.config then says
    #[arg(long, value_name = "NAME", default_value = "planned")]
    pub(super) name: String,
    /// Bind the configuration in YAML to the product by its PCI device ids, for nodes with GPUs of several products
    #[arg(long)]
    pub(super) device_filter: bool,
    /// A model to serve, on the smallest slice that surely holds it, as in meta-llama/Llama-3.1-8B-Instruct=2. Repeat it
    /// for several
    #[arg(long = "model", value_name = "ID[=COUNT]")]
    pub(super) models: Vec<String>,
    /// The engine of the models: vllm, sglang, tgi, tei, trtllm, llama.cpp or lmdeploy
    #[arg(long, value_name = "NAME", default_value = "vllm")]
    pub(super) engine: String,
    /// Its release, as in 0.11.0, 0.7.x, 0.11-0.12 or 0.21+
    #[arg(long, value_name = "VERSION")]
    pub(super) engine_version: Option<String>,
    /// text, json or yaml
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub(super) output: PlanOutput,
    /// Slices and how many of each, as in 3g.40gb=1 1g.10gb=4
    #[arg(value_name = "PROFILE=COUNT", required_unless_present = "models")]
    pub(super) profiles: Vec<String>,
    /// What follows the command of the models' engine, behind `--`
    #[arg(value_name = "ENGINE ARGS", last = true, allow_hyphen_values = true)]
    pub(super) arguments: Vec<String>,
}

const MIG_EXAMPLES: &str = "\
Examples:
  vramgate mig plan --product h100-80gb-sxm 4g.40gb=1 1g.10gb=3
  vramgate mig plan --product NVIDIA-H200 -o yaml --name serving 3g.71gb=2
  vramgate mig plan --product a100-80gb --model Qwen/Qwen3-8B=2 1g.10gb=2 -- --max-model-len 8192

Exit codes: 0 valid, 1 impossible (the reason is told), 2 unusable input.";

/// What `advise` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum AdviseOutput {
    /// For people.
    Text,
    /// A versioned document.
    Json,
    /// The objects to apply, with the reasons as comments.
    Yaml,
}

/// Whether isolation is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Required {
    /// Memory and faults of one process must not reach another.
    Required,
    /// They may.
    None,
}

/// Whose processes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum AdviseOwners {
    /// They trust each other.
    Trusted,
    /// They do not.
    Untrusted,
}

/// What the processes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum AdviseWorkload {
    /// They serve.
    Inference,
    /// They compute without pause.
    Batch,
    /// They mostly wait for people.
    Interactive,
}

#[derive(Debug, Args)]
#[command(after_help = ADVISE_EXAMPLES)]
pub(super) struct Advise {
    /// The GPU: a product such as h100-80gb-sxm or the value of a node's label nvidia.com/gpu.product; PRODUCT=MIB for one
    /// that the catalogue lacks
    #[arg(long, value_name = "PRODUCT")]
    pub(super) product: String,
    /// GPUs of a node
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) gpus: u32,
    /// Whether memory and faults of one process must not reach another
    #[arg(long, value_enum, default_value = "none")]
    pub(super) isolation: Required,
    /// Whether those who share trust each other
    #[arg(long, value_enum, default_value = "trusted")]
    pub(super) tenants: AdviseOwners,
    /// What the processes do
    #[arg(long, value_enum, default_value = "inference")]
    pub(super) workload: AdviseWorkload,
    /// A model to serve, as in meta-llama/Llama-3.1-8B-Instruct=2. Repeat it for several
    #[arg(long, value_name = "ID[=COUNT]")]
    pub(super) models: Vec<String>,
    /// All that a process takes of a GPU, in MiB, as in 8000=4. Repeat it for several
    #[arg(long, value_name = "MIB[=COUNT]")]
    pub(super) memory: Vec<String>,
    /// The engine of the models: vllm, sglang, tgi, tei, trtllm, llama.cpp or lmdeploy
    #[arg(long, value_name = "NAME", default_value = "vllm")]
    pub(super) engine: String,
    /// Its release, as in 0.11.0, 0.7.x, 0.11-0.12 or 0.21+
    #[arg(long, value_name = "VERSION")]
    pub(super) engine_version: Option<String>,
    /// Name of the configuration and the policy, which is what the nodes' labels then say
    #[arg(long, value_name = "NAME", default_value = "advised")]
    pub(super) name: String,
    /// Namespace in which device plugin and MIG manager read their configuration
    #[arg(long, value_name = "NAMESPACE", default_value = "gpu-operator")]
    pub(super) namespace: String,
    /// text, json or yaml
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub(super) output: AdviseOutput,
    /// What follows the command of the models' engine, behind `--`
    #[arg(value_name = "ENGINE ARGS", last = true, allow_hyphen_values = true)]
    pub(super) arguments: Vec<String>,
}

const ADVISE_EXAMPLES: &str = "\
Examples:
  vramgate advise --product l40s --memory 10000=4
  vramgate advise --product h100-80gb-sxm --isolation required --memory 9000=5 -o yaml
  vramgate advise --product a100-80gb --gpus 2 --models Qwen/Qwen3-8B=4 -- --max-model-len 8192

Exit codes: 0 the GPUs suffice, 1 they do not (what it takes is told), 2 unusable input.";

#[derive(Debug, Args)]
pub(super) struct Certs {
    /// Folder to write into; it is made where it does not exist
    #[arg(long, value_name = "DIR")]
    pub(super) out: PathBuf,
    /// Name or IP address by which the API server reaches the webhook. Repeat it for several
    #[arg(long = "host", value_name = "NAME", required = true)]
    pub(super) hosts: Vec<String>,
    /// Days for which the certificates are valid
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub(super) days: u32,
    /// Replace files that exist
    #[arg(long)]
    pub(super) force: bool,
}

#[derive(Debug, Args)]
pub(super) struct WebhookConfig {
    /// Base URL of the webhook; /mutate and /validate are appended
    #[arg(
        long,
        value_name = "URL",
        conflicts_with = "service",
        required_unless_present = "service"
    )]
    pub(super) url: Option<String>,
    /// The webhook's Service, on port 443
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(super) service: Option<String>,
    /// PEM file with the authority that signed the webhook's certificate
    #[arg(long, value_name = "FILE")]
    pub(super) ca: PathBuf,
    /// Folder with policies: the runtime classes and rules of their spec.access decide which pods come to the webhook
    /// though they ask for no GPU
    #[arg(long, value_name = "DIR")]
    pub(super) policy_dir: Option<PathBuf>,
    /// Namespace whose pods, workloads and autoscalers do not come to the webhook. Repeat it for several
    #[arg(long = "exempt-namespace", value_name = "NAME")]
    pub(super) exempt_namespaces: Vec<String>,
    /// yaml or json
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml", value_parser = yaml_or_json)]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
pub(super) struct Crds {
    /// yaml or json
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml", value_parser = yaml_or_json)]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Address of the webhook (HTTPS)
    #[arg(
        long,
        value_name = "ADDR",
        env = "VRAMGATE_LISTEN",
        default_value = "0.0.0.0:8443"
    )]
    pub(super) listen: SocketAddr,
    /// Address of health and metrics (HTTP)
    #[arg(
        long,
        value_name = "ADDR",
        env = "VRAMGATE_STATUS_LISTEN",
        default_value = "0.0.0.0:8080"
    )]
    pub(super) status_listen: SocketAddr,
    /// Certificate chain (PEM), read again when it changes; self-signed without it
    #[arg(long, value_name = "FILE", env = "VRAMGATE_TLS_CERT", requires = "tls_key")]
    pub(super) tls_cert: Option<PathBuf>,
    /// Private key (PEM) of --tls-cert
    #[arg(long, value_name = "FILE", env = "VRAMGATE_TLS_KEY", requires = "tls_cert")]
    pub(super) tls_key: Option<PathBuf>,
    #[command(flatten)]
    pub(super) own_ca: super::serve::OwnCa,
    /// Watch the cluster that this file describes (else the one that this process runs in)
    #[arg(
        long,
        value_name = "FILE",
        env = "VRAMGATE_KUBECONFIG",
        conflicts_with = "cluster_state"
    )]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Answer from a snapshot instead of a live cluster. Repeat it for several
    #[arg(long, value_name = "FILE", env = "VRAMGATE_CLUSTER_STATE")]
    pub(super) cluster_state: Vec<PathBuf>,
    /// Folder with GpuSharingPolicy files, read again when they change
    #[arg(long, value_name = "DIR", env = "VRAMGATE_POLICY_DIR")]
    pub(super) policy_dir: Option<PathBuf>,
    /// Where reservations are kept: `cluster`, in GpuLedger objects that any number of replicas share, or `memory`, for
    /// one replica alone. By default cluster, and memory with --cluster-state
    #[arg(long, value_name = "KIND", env = "VRAMGATE_LEDGER")]
    pub(super) ledger: Option<Ledger>,
    /// Age from which a reservation whose pod the API server does not know is dropped, as in 65s or 2m
    #[arg(long, value_name = "TIME", env = "VRAMGATE_RESERVATION_TTL", default_value = "65s", value_parser = duration)]
    pub(super) reservation_ttl: Duration,
}

/// Where reservations are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Ledger {
    /// In this process: one replica only.
    Memory,
    /// In custom resources: any number of replicas.
    Cluster,
}

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default();
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("write a whole number with ms, s, m or h, as in 65s".to_owned()),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "write a whole number with a unit, as in 65s".to_owned())?;
    match number.checked_mul(milliseconds) {
        Some(0) => Err("must be above zero".to_owned()),
        Some(total) => Ok(Duration::from_millis(total)),
        None => Err("is too large".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_are_read_with_their_unit() {
        assert_eq!(duration("65s"), Ok(Duration::from_secs(65)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_mins(2)));
        for text in [
            "",
            "65",
            "s",
            "-1s",
            "1.5s",
            "0s",
            "99999999999999999999h",
            "18446744073709551615h",
            "5d",
        ] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn formats_are_told() {
        assert_eq!(output("json"), Ok(Output::Json));
        assert!(output("yaml").unwrap_err().contains("text or json"));
    }
}
