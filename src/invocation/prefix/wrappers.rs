//! Programs that start another one, and how much of their command line is their own.

/// Where the started program stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    /// Behind the options and this many words of the wrapper's own.
    Words(usize),
    /// Behind the subcommand, its options and this many further words.
    Subcommand(&'static [&'static str], usize),
    /// Behind `--`, which must be there; the subcommand comes first.
    Dashes(&'static [&'static str]),
}

/// A program that starts another one.
pub(super) struct Wrapper {
    pub(super) name: &'static str,
    /// Short options that take the next word.
    pub(super) short: &'static str,
    /// Long options that take the next word; most are written with `=`.
    pub(super) long: &'static [&'static str],
    pub(super) behind: Behind,
}

/// All long options without `=` take the next word.
pub(super) const EVERY: &[&str] = &["*"];

const NONE: &[&str] = &[];

const fn plain(name: &'static str, short: &'static str) -> Wrapper {
    wrapper(name, short, NONE, Behind::Words(0))
}

const fn wrapper(
    name: &'static str,
    short: &'static str,
    long: &'static [&'static str],
    behind: Behind,
) -> Wrapper {
    Wrapper {
        name,
        short,
        long,
        behind,
    }
}

const RUN: &[&str] = &["run"];
const EXEC: &[&str] = &["exec"];
const MPI: &[&str] = &[
    "hostfile", "host", "map-by", "bind-to", "rank-by", "np", "npernode",
];
const ENVIRONMENT: &[&str] = &["name", "prefix", "cwd"];
const NSYS: &[&str] = &[
    "trace",
    "output",
    "sample",
    "cpuctxsw",
    "force-overwrite",
    "capture-range",
    "capture-range-end",
    "cuda-graph-trace",
    "delay",
    "duration",
    "session-new",
    "session",
    "stats",
    "export",
    "kill",
    "wait",
    "trace-fork-before-exec",
    "gpu-metrics-devices",
    "env-var",
];

/// Every wrapper that is looked through. What a program does to the one that it starts (limits, traces, another user)
/// changes nothing of the command line.
pub(super) const WRAPPERS: &[Wrapper] = &[
    // Shells and process control.
    plain("exec", "a"),
    plain("command", ""),
    plain("builtin", ""),
    plain("nohup", ""),
    plain("time", "of"),
    plain("setsid", ""),
    plain("stdbuf", "ioe"),
    plain("nice", "n"),
    plain("ionice", "cn"),
    wrapper(
        "numactl",
        "NmCpibPw",
        &[
            "cpunodebind",
            "interleave",
            "membind",
            "physcpubind",
            "preferred",
            "preferred-many",
            "weighted-interleave",
        ],
        Behind::Words(0),
    ),
    plain("prlimit", ""),
    plain("unbuffer", ""),
    plain("catchsegv", ""),
    plain("eatmydata", ""),
    plain("jemalloc.sh", ""),
    wrapper("taskset", "", NONE, Behind::Words(1)),
    wrapper("chrt", "TPD", NONE, Behind::Words(1)),
    wrapper("timeout", "sk", &["signal", "kill-after"], Behind::Words(1)),
    wrapper(
        "flock",
        "wE",
        &["timeout", "conflict-exit-code"],
        Behind::Words(1),
    ),
    // Another user.
    wrapper("gosu", "", NONE, Behind::Words(1)),
    wrapper("su-exec", "", NONE, Behind::Words(1)),
    wrapper("s6-setuidgid", "", NONE, Behind::Words(1)),
    plain("sudo", "ugCh"),
    plain("runuser", "ugG"),
    wrapper(
        "setpriv",
        "",
        &[
            "reuid",
            "regid",
            "groups",
            "inh-caps",
            "ambient-caps",
            "bounding-set",
            "securebits",
        ],
        Behind::Words(0),
    ),
    // The first process of a container.
    plain("tini", "pe"),
    wrapper("dumb-init", "r", &["rewrite"], Behind::Words(0)),
    plain("catatonit", ""),
    plain("with-contenv", ""),
    plain("kubexit", ""),
    plain("nvidia_entrypoint.sh", ""),
    plain("docker-entrypoint.sh", ""),
    plain("ramalama-serve-core", ""),
    // Python's environments.
    wrapper(
        "uv",
        "p",
        &[
            "with",
            "extra",
            "python",
            "project",
            "directory",
            "group",
            "env-file",
            "index-url",
            "from",
        ],
        Behind::Subcommand(RUN, 0),
    ),
    wrapper("uvx", "p", &["with", "from", "python"], Behind::Words(0)),
    wrapper("pipx", "", &["spec", "python"], Behind::Subcommand(RUN, 0)),
    wrapper("poetry", "C", &["directory"], Behind::Subcommand(RUN, 0)),
    wrapper("pipenv", "", NONE, Behind::Subcommand(RUN, 0)),
    wrapper("pdm", "p", NONE, Behind::Subcommand(RUN, 0)),
    wrapper("hatch", "", NONE, Behind::Subcommand(RUN, 0)),
    wrapper(
        "pixi",
        "e",
        &["environment", "manifest-path"],
        Behind::Subcommand(RUN, 0),
    ),
    wrapper("conda", "np", ENVIRONMENT, Behind::Subcommand(RUN, 0)),
    wrapper("mamba", "np", ENVIRONMENT, Behind::Subcommand(RUN, 0)),
    wrapper("micromamba", "npr", ENVIRONMENT, Behind::Subcommand(RUN, 0)),
    // Several processes.
    wrapper("mpirun", "nxHc", MPI, Behind::Words(0)),
    wrapper("mpiexec", "nxHc", MPI, Behind::Words(0)),
    wrapper("ray", "", NONE, Behind::Dashes(&["symmetric-run"])),
    // Traces and profiles.
    wrapper("opentelemetry-instrument", "", EVERY, Behind::Words(0)),
    plain("ddtrace-run", ""),
    wrapper(
        "newrelic-admin",
        "",
        NONE,
        Behind::Subcommand(&["run-program"], 0),
    ),
    plain("strace", "oespPEabIS"),
    plain("ltrace", "oespnalx"),
    wrapper("perf", "eoFcC", NONE, Behind::Subcommand(&["stat", "record"], 0)),
    wrapper(
        "nsys",
        "otsc",
        NSYS,
        Behind::Subcommand(&["profile", "launch"], 0),
    ),
    wrapper(
        "ncu",
        "ockst",
        &["target-processes", "set", "section", "kernel-name"],
        Behind::Words(0),
    ),
    wrapper(
        "compute-sanitizer",
        "",
        &["tool", "log-file", "target-processes"],
        Behind::Words(0),
    ),
    plain("rocprof", "iod"),
    wrapper(
        "rocprofv3",
        "iodf",
        &["output-directory", "output-file"],
        Behind::Words(0),
    ),
    wrapper("py-spy", "", NONE, Behind::Dashes(&["record", "top"])),
    // Secrets as variables.
    plain("vault-env", ""),
    wrapper("doppler", "", NONE, Behind::Dashes(RUN)),
    wrapper("infisical", "", NONE, Behind::Dashes(RUN)),
    wrapper("op", "", NONE, Behind::Dashes(RUN)),
    wrapper("teller", "", NONE, Behind::Dashes(RUN)),
    wrapper("dotenv", "", NONE, Behind::Dashes(RUN)),
    wrapper("chamber", "", NONE, Behind::Dashes(EXEC)),
    wrapper("aws-vault", "", NONE, Behind::Dashes(EXEC)),
    wrapper("berglas", "", NONE, Behind::Dashes(EXEC)),
    // Networks.
    plain("proxychains4", "f"),
    wrapper(
        "xvfb-run",
        "snefpw",
        &["server-args", "server-num"],
        Behind::Words(0),
    ),
];
