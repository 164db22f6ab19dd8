//! The objects of a large cluster, as an API server writes them: compact JSON, fields in the order of its types, managed
//! fields last in the metadata. Each is made from its number when it is asked for, so that no cluster is held anywhere.
//!
//! Half of the nodes share four GPUs each by time-slicing, in 16 slots; the others give eight whole GPUs. Of every ten pods
//! three ask for a GPU, four are pods of services, and three are agents that stand on every node.

/// How large it is.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Size {
    /// GPU nodes.
    #[arg(id = "gpu_nodes", long = "gpu-nodes", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub(crate) nodes: u32,
    /// Pods; three of ten ask for a GPU.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(10..=500_000))]
    pub(crate) pods: u32,
}

/// Product, memory in MiB, family, compute capability, whether MIG can be used, machine.
const PRODUCTS: [(&str, &str, &str, &str, &str, &str, &str); 4] = [
    (
        "NVIDIA-H100-80GB-HBM3",
        "81559",
        "hopper",
        "9",
        "0",
        "true",
        "gpu-h100",
    ),
    (
        "NVIDIA-A100-SXM4-80GB",
        "81920",
        "ampere",
        "8",
        "0",
        "true",
        "gpu-a100",
    ),
    (
        "NVIDIA-L40S",
        "46068",
        "ada-lovelace",
        "8",
        "9",
        "false",
        "gpu-l40s",
    ),
    ("NVIDIA-A10", "23028", "ampere", "8", "6", "false", "gpu-a10"),
];
/// Pods of one ReplicaSet.
const REPLICAS: u32 = 50;
/// The version that every list is of.
pub(crate) const VERSION: u64 = 9_000_000;

/// Texts of nodes and pods with places to fill.
pub(crate) struct Templates {
    node: Vec<Part>,
    engine: Vec<Part>,
    service: Vec<Part>,
    agent: Vec<Part>,
}

/// Text, and the name of what follows it.
struct Part(String, String);

fn parts(text: &str) -> Vec<Part> {
    // Newlines stand between values alone; a real API server writes none.
    let text = text.replace('\n', "");
    let mut parts = Vec::new();
    let mut fields = text.split('@');
    let mut plain = fields.next().unwrap_or_default().to_owned();
    while let Some(field) = fields.next() {
        let is_name = !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_uppercase());
        if is_name {
            parts.push(Part(std::mem::take(&mut plain), field.to_owned()));
            fields.next().unwrap_or_default().clone_into(&mut plain);
        } else {
            plain.push('@');
            plain.push_str(field);
        }
    }
    parts.push(Part(plain, String::new()));
    parts
}

fn fill(parts: &[Part], out: &mut String, value: impl Fn(&str, &mut String)) {
    for Part(plain, name) in parts {
        out.push_str(plain);
        value(name, out);
    }
}

impl Default for Templates {
    fn default() -> Self {
        Self {
            node: parts(include_str!("objects/node.json")),
            engine: parts(include_str!("objects/engine-pod.json")),
            service: parts(include_str!("objects/service-pod.json")),
            agent: parts(include_str!("objects/daemon-pod.json")),
        }
    }
}

/// What kind of pod stands under a number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pod {
    Engine,
    Service,
    Agent,
}

impl Pod {
    const fn of(number: u32) -> Self {
        match number % 10 {
            0..3 => Self::Engine,
            3..7 => Self::Service,
            _ => Self::Agent,
        }
    }
}

/// Whether the pod of this number asks for a GPU.
pub(crate) fn holds(number: u32) -> bool {
    Pod::of(number) == Pod::Engine
}

const fn is_shared(node: u32) -> bool {
    node.is_multiple_of(2)
}

fn write(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    // A String takes whatever it is given.
    let _ = std::fmt::Write::write_fmt(out, arguments);
}

/// Five letters and digits that look like chance, as the API server appends to names.
fn suffix(number: u32, out: &mut String) {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut rest = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    for _ in 0..5 {
        out.push(char::from(
            LETTERS[usize::try_from(rest % 27).unwrap_or_default()],
        ));
        rest /= 27;
    }
}

impl Templates {
    /// The node of a number.
    pub(crate) fn node(&self, number: u32, out: &mut String) {
        let (product, memory, family, major, minor, mig, machine) =
            PRODUCTS[number as usize / 2 % PRODUCTS.len()];
        let shared = is_shared(number);
        fill(&self.node, out, |name, out| match name {
            "NAME" => write(out, format_args!("gpu-{number:05}")),
            "UID" => write(out, format_args!("cccccccc-0000-4000-8000-{number:012}")),
            "VERSION" => write(out, format_args!("{}", 1_000_000 + number)),
            "TYPE" => out.push_str(machine),
            "ZONE" => write(
                out,
                format_args!("eu-central-1{}", ["a", "b", "c"][number as usize % 3]),
            ),
            "TIMESTAMP" => write(out, format_args!("{}", 1_767_000_000 + number)),
            "MAJOR" => out.push_str(major),
            "MINOR" => out.push_str(minor),
            "COUNT" => out.push_str(if shared { "4" } else { "8" }),
            "FAMILY" => out.push_str(family),
            "MEMORY" => out.push_str(memory),
            "PRODUCT" => out.push_str(product),
            "REPLICAS" => out.push_str(if shared { "4" } else { "1" }),
            "STRATEGY" => out.push_str(if shared { "time-slicing" } else { "none" }),
            "MIG" => out.push_str(mig),
            "NUMBER" => write(out, format_args!("{number:012}")),
            "OCTET" => write(out, format_args!("{}.{}", number / 250 % 250, number % 250)),
            "RESOURCE" => out.push_str(if shared {
                "nvidia.com/gpu.shared"
            } else {
                "nvidia.com/gpu"
            }),
            "SLOTS" => out.push_str(if shared { "16" } else { "8" }),
            _ => {}
        });
    }

    /// The pod of a number; `version` changes with each event about it.
    pub(crate) fn pod(&self, number: u32, size: Size, version: u64, out: &mut String) {
        let kind = Pod::of(number);
        // Numbers of its kind, so that owners have pods of one kind alone.
        let (of_kind, kinds) = match kind {
            Pod::Engine => (number / 10 * 3 + number % 10, "llm"),
            Pod::Service => (number / 10 * 4 + number % 10 - 3, "web"),
            Pod::Agent => (number / 10 * 3 + number % 10 - 7, "agent"),
        };
        let owner = of_kind / REPLICAS;
        let shares = kind == Pod::Engine && !of_kind.is_multiple_of(3);
        let node = match kind {
            // Two of three share; each sort goes around its half of the nodes.
            Pod::Engine if shares => (of_kind / 3 * 2 + of_kind % 3 - 1) * 2 % (size.nodes + size.nodes % 2),
            Pod::Engine if size.nodes > 1 => (of_kind / 3 * 2 % (size.nodes / 2 * 2)) + 1,
            _ => of_kind % size.nodes,
        };
        // Of one owner all share or none, as their template is one.
        let owner_name = |out: &mut String| match kind {
            Pod::Agent => write(out, format_args!("agent-{}", of_kind / size.nodes)),
            Pod::Engine => {
                write(
                    out,
                    format_args!("llm-{}{:05}-6c9f8b7d54", if shares { "s" } else { "w" }, owner),
                );
            }
            Pod::Service => write(out, format_args!("{kinds}-{owner:05}-5d8c9f7b66")),
        };
        let parts = match kind {
            Pod::Engine => &self.engine,
            Pod::Service => &self.service,
            Pod::Agent => &self.agent,
        };
        fill(parts, out, |name, out| match name {
            "NAME" => {
                owner_name(out);
                out.push('-');
                suffix(number, out);
            }
            "OWNER" => owner_name(out),
            "APP" => write(out, format_args!("{kinds}-{owner:05}")),
            "NAMESPACE" => match kind {
                Pod::Agent => out.push_str("platform"),
                _ => write(out, format_args!("team-{:03}", owner % 200)),
            },
            "UID" => write(out, format_args!("dddddddd-0000-4000-8000-{number:012}")),
            "OWNERUID" => {
                let sort = if shares { 1 } else { 2 };
                write(out, format_args!("eeeeeeee-000{sort}-4000-8000-{owner:012}"));
            }
            "VERSION" => write(out, format_args!("{version}")),
            "HASH" => out.push_str("6c9f8b7d54"),
            "TOKEN" => suffix(number.wrapping_add(7_777_777), out),
            "NODE" => write(out, format_args!("gpu-{node:05}")),
            "OCTET" => write(out, format_args!("{}.{}", node / 250 % 250, node % 250)),
            "MODEL" => out.push_str(
                ["/models/llama-3.1-8b", "/models/qwen2.5-7b", "/models/mistral-7b"][owner as usize % 3],
            ),
            "FRACTION" => out.push_str(if shares {
                ["0.12", "0.14", "0.16"][owner as usize % 3]
            } else {
                "0.92"
            }),
            "SEQS" => write(out, format_args!("{}", 32 + owner % 4 * 16)),
            "RESOURCE" => out.push_str(if shares {
                "nvidia.com/gpu.shared"
            } else {
                "nvidia.com/gpu"
            }),
            "PRIVILEGED" => out.push_str(if of_kind / size.nodes == 0 {
                "true"
            } else {
                "false"
            }),
            _ => {}
        });
    }
}

/// Names of the namespaces.
pub(crate) fn namespaces() -> impl Iterator<Item = String> {
    (0..200)
        .map(|number| format!("team-{number:03}"))
        .chain(["platform".to_owned(), "assistant".to_owned()])
}
