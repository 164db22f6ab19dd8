//! The commands below `policy`, for those who write policies.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Output, output, yaml_or_json};

#[derive(Debug, Args)]
pub(in crate::cli) struct Policy {
    #[command(subcommand)]
    pub(in crate::cli) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum PolicyCommand {
    /// Tell everything that is wrong with policies, and what in them cannot be meant. Exit 0 nothing, 1 errors, 2 files that
    /// cannot be read
    Lint(PolicyLint),
    /// Run suites: Markdown whose blocks are manifests, a cluster, and what is expected. Exit 0 as expected, 1 otherwise, 2
    /// suites that cannot be used
    Test(PolicyTest),
    /// Show which policy applies to each pod and node, why, and where each of its values comes from
    Explain(PolicyExplain),
    /// Tell whose verdict changes between two sets of policies. Exit 0 nobody's, 1 somebody's, 2 unusable input
    Diff(PolicyDiff),
    /// Print ValidatingAdmissionPolicies with what the API server can judge by itself, so that base rules stand while
    /// vramgate is down: for `kubectl apply -f -`
    ExportVap(PolicyExportVap),
    /// Print the JSON Schema of a policy, for editors and checks of files
    Schema,
}

/// From which remarks on exit code is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum LintFailOn {
    /// An error: the policies do not load.
    Error,
    /// A warning, too.
    Warning,
    /// Nothing.
    Never,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PolicyLint {
    /// Policies: files, folders (every *.yaml, *.yml and *.json below them) or `-` for standard input. All of them together
    /// are one set, as in --policy-dir
    #[arg(value_name = "FILE", required = true)]
    pub(in crate::cli) files: Vec<PathBuf>,
    /// Level from which exit code is 1
    #[arg(long, value_enum, default_value = "error")]
    pub(in crate::cli) fail_on: LintFailOn,
    /// Objects of a cluster: tells policies that match none of its nodes or pods. Repeat it for several
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) cluster_state: Vec<PathBuf>,
    /// text or json
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = output)]
    pub(in crate::cli) output: Output,
}

/// What `policy test` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum TestOutput {
    /// For people.
    Text,
    /// A versioned document.
    Json,
    /// For tools that show test reports.
    Junit,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PolicyTest {
    /// Suites: files, or folders, of which every *.md below them that has a case is one
    #[arg(value_name = "FILE", default_value = ".")]
    pub(in crate::cli) files: Vec<PathBuf>,
    /// Write what came of each case into the suite, in place of what it expects
    #[arg(long)]
    pub(in crate::cli) update: bool,
    /// text, json or junit
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub(in crate::cli) output: TestOutput,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PolicyExplain {
    /// Manifests of pods, of what makes pods, and of nodes: files, folders or `-`
    #[arg(value_name = "FILE", required = true)]
    pub(in crate::cli) files: Vec<PathBuf>,
    /// Objects of the cluster; its nodes are those on which a pod could stand. Repeat it for several
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) cluster_state: Vec<PathBuf>,
    /// Folder with GpuSharingPolicy files
    #[arg(long, value_name = "DIR")]
    pub(in crate::cli) policy_dir: Option<PathBuf>,
    /// Show every value of the policies that apply, also those of the built-in default
    #[arg(long)]
    pub(in crate::cli) all: bool,
    /// text or json
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = output)]
    pub(in crate::cli) output: Output,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PolicyDiff {
    /// The policies now: a file or a folder; an empty folder stands for the built-in default alone
    #[arg(value_name = "OLD")]
    pub(in crate::cli) old: PathBuf,
    /// The policies then
    #[arg(value_name = "NEW")]
    pub(in crate::cli) new: PathBuf,
    /// Objects of the cluster, as `kubectl get nodes,namespaces,configmaps,deployments,pods,… -A -o yaml` prints them. Repeat
    /// it for several
    #[arg(long, value_name = "FILE", required = true)]
    pub(in crate::cli) cluster_state: Vec<PathBuf>,
    /// text or json
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = output)]
    pub(in crate::cli) output: Output,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PolicyExportVap {
    /// All policies of the cluster: files, folders or `-`; the built-in default is always among them
    #[arg(value_name = "FILE")]
    pub(in crate::cli) files: Vec<PathBuf>,
    /// A namespace in which nothing is refused, as the webhook's registrations leave it out. Repeat it for several
    #[arg(long = "exempt-namespace", value_name = "NAME")]
    pub(in crate::cli) exempt_namespaces: Vec<String>,
    /// yaml or json
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml", value_parser = yaml_or_json)]
    pub(in crate::cli) output: Output,
}
