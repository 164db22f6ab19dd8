//! A plan: what somebody wants a product's GPUs to be cut into, and whether they can be.

use std::fmt;

use super::geometry::Geometry;
use super::impossible::Impossible;
use super::search::Layout;
use super::spread::Spread;
use crate::finding::{Code, FieldPath, Finding, shortened};

/// Longest first line, in bytes, without its code.
const LONGEST_LINE: usize = 240;

/// What is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Profiles and counts, as they are written.
    pub asked: &'a [(String, u32)],
    /// GPUs over which they may be spread.
    pub gpus: u32,
    /// Whether a smaller profile may be proposed instead: not where a model needs what is asked.
    pub may_shrink: bool,
}

/// The layouts of the GPUs, or VG304.
///
/// `geometry` is `None` for a product without MIG.
///
/// # Errors
///
/// The finding: why no such layout exists, and what does exist that is nearest.
pub fn plan(product: &str, geometry: Option<&Geometry>, wanted: Wanted<'_>) -> Result<Spread, Box<Finding>> {
    let all = Sum(wanted.asked);
    let Some(geometry) = geometry else {
        let text = format!("{all} cannot stand on {product}: the product has no MIG");
        return Err(Box::new(finding(text)));
    };
    let asked = || wanted.asked.iter().map(|(name, count)| (name.as_str(), *count));
    let on_one = geometry.place(asked());
    let impossible = match on_one {
        Ok(layout) => {
            return Ok(Spread {
                layouts: vec![layout],
                is_least: true,
            });
        }
        Err(impossible) => impossible,
    };
    let spread = geometry.spread(asked()).ok().flatten();
    if let Some(spread) = &spread
        && spread.layouts.len() <= wanted.gpus as usize
    {
        return Ok(spread.clone());
    }
    let spread = spread.as_ref();
    Err(Box::new(impossible_on(
        product,
        geometry,
        wanted,
        &impossible,
        spread,
    )))
}

fn finding(text: String) -> Finding {
    let finding = Finding::new(Code::Vg304, FieldPath::default(), text);
    finding.with_severity(Code::Vg304.default_severity())
}

fn impossible_on(
    product: &str,
    geometry: &Geometry,
    wanted: Wanted<'_>,
    impossible: &Impossible,
    spread: Option<&Spread>,
) -> Finding {
    let all = Sum(wanted.asked);
    let asked = || wanted.asked.iter().map(|(name, count)| (name.as_str(), *count));
    let place = match (wanted.gpus, spread) {
        (0 | 1, _) | (_, None) => format!("one {product}"),
        (gpus, Some(_)) => format!("{gpus} GPUs of {product}"),
    };
    let why = match (wanted.gpus, spread) {
        (0 | 1, _) | (_, None) => impossible.to_string(),
        (_, Some(spread)) => at_least(spread),
    };
    let mut finding = finding(format!("{all} cannot stand on {place}: {why}"));
    if finding.message.len() > LONGEST_LINE {
        let first = impossible
            .reasons
            .first()
            .map(ToString::to_string)
            .unwrap_or_default();
        finding.message = format!(
            "{} cannot stand on {place}: {first}",
            shortened(&all.to_string(), 40)
        );
        let others = impossible.reasons.iter().skip(1);
        finding
            .details
            .extend(others.map(|reason| format!("and {reason}")));
    }
    let mut tell = |what: &str, layout: Option<Layout>| {
        if let Some(layout) = layout {
            finding.details.push(format!("{what}: {layout}"));
        }
    };
    if wanted.gpus <= 1 {
        tell(
            "what stands with one profile smaller",
            geometry.with_one_smaller(asked()),
        );
        tell("what stands with fewer instances", geometry.without_some(asked()));
    }
    if let Some(spread) = spread {
        let layouts: Vec<String> = spread.layouts.iter().map(ToString::to_string).collect();
        let count = at_least(spread);
        finding.details.push(format!("{count}: {}", layouts.join("; ")));
    }
    finding
}

fn at_least(spread: &Spread) -> String {
    let gpus = spread.layouts.len();
    if spread.is_least {
        format!("it takes {gpus} such GPUs")
    } else {
        format!("{gpus} such GPUs hold it, and fewer may")
    }
}

/// Profiles and counts in words.
struct Sum<'a>(&'a [(String, u32)]);

impl fmt::Display for Sum<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 5;
        for (index, (name, count)) in self.0.iter().take(MOST).enumerate() {
            if index > 0 {
                f.write_str(" + ")?;
            }
            if *count != 1 {
                write!(f, "{count} x ")?;
            }
            f.write_str(&crate::finding::short(name))?;
        }
        if self.0.len() > MOST {
            f.write_str(" and more")?;
        }
        Ok(())
    }
}
