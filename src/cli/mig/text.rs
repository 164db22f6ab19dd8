//! The text of a plan.

use std::fmt::Write as _;

use super::Served;
use crate::cli::output::clean;
use crate::mig::{Basis, Geometry, Layout, Spread};

/// A plan that is valid.
pub(super) fn valid(product: &str, geometry: &Geometry, spread: &Spread, served: &[Served]) -> String {
    let mut text = String::new();
    let product = clean(product);
    match spread.layouts.as_slice() {
        [only] => {
            let _ = writeln!(text, "{only} stands on one {product}");
        }
        several => {
            let fewer = if spread.is_least {
                "no fewer do"
            } else {
                "fewer may do"
            };
            let _ = writeln!(text, "it stands on {} GPUs of {product}; {fewer}", several.len());
        }
    }
    for line in slices(served) {
        let _ = writeln!(text, "{}", clean(&line));
    }
    for (number, layout) in spread.layouts.iter().enumerate() {
        text.push('\n');
        if spread.layouts.len() > 1 {
            let _ = writeln!(text, "GPU {number}: {layout}");
        }
        table(&mut text, layout);
        let _ = writeln!(
            text,
            "left: {} of {} compute slices, {} of {} memory slices",
            layout.free_compute_slices, geometry.compute_slices, layout.free_units, geometry.units
        );
        let _ = writeln!(text, "create in this order: {}", command(number, layout));
    }
    let basis = match geometry.basis {
        Basis::Seen => None,
        Basis::SameLayout => Some(
            "the placements are those of a product with the same layout: compare them with nvidia-smi mig -lgipp on \
             the node",
        ),
        Basis::Derived => Some(
            "the catalogue lacks this product: names follow from its total and the layout is that of every data-centre \
             GPU so far; compare them with nvidia-smi mig -lgip on the node",
        ),
    };
    if let Some(basis) = basis {
        let _ = writeln!(text, "\n{basis}");
    }
    text
}

/// The slice of each model.
pub(super) fn slices(served: &[Served]) -> Vec<String> {
    let lines = served.iter().map(|served| {
        let Served {
            model,
            count,
            profile,
        } = served;
        let each = if *count > 1 {
            format!("{count} x ")
        } else {
            String::new()
        };
        format!("{model}: {each}{profile}, the smallest slice that surely holds it")
    });
    lines.collect()
}

fn table(text: &mut String, layout: &Layout) {
    let _ = writeln!(
        text,
        "{:<16}{:>8}{:>8}{:>10}{:>12}",
        "PROFILE", "START", "SIZE", "COMPUTE", "MEMORY"
    );
    for instance in &layout.instances {
        let memory = instance
            .memory
            .map_or_else(|| "unknown".to_owned(), |memory| memory.to_string());
        let _ = writeln!(
            text,
            "{:<16}{:>8}{:>8}{:>10}{:>12}",
            instance.name.to_string(),
            instance.start,
            instance.size,
            instance.compute_slices,
            memory
        );
    }
}

/// The command that makes the instances, each in its place.
///
/// Source: `nvidia-smi mig -cgi` takes profiles with an optional placement, `PROFILE:START`.
fn command(gpu: usize, layout: &Layout) -> String {
    let each = layout
        .instances
        .iter()
        .map(|instance| format!("{}:{}", instance.name, instance.start));
    format!(
        "nvidia-smi mig -i {gpu} -cgi {} -C",
        each.collect::<Vec<_>>().join(",")
    )
}
