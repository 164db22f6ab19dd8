//! VG107: parallel sizes that the engine's parser takes and that are no number of ranks.

use super::argparse::value::Value;
use super::line::LineView;
use super::reader::Context;
use crate::finding::{Code, Finding};

/// Far more than the devices of any cluster.
const MOST: i128 = 65_536;

/// The findings about `options`, each with its least value that means something. What the release refuses by itself is
/// told as such, so `is_told` leaves it out.
pub(super) fn findings(
    context: &Context<'_>,
    line: &LineView<'_, '_>,
    options: &[(&str, i128)],
    is_told: &dyn Fn(&str) -> bool,
) -> Vec<Finding> {
    let (engine, release) = (line.engine, line.parsed.release);
    let settings = options.iter().filter_map(|(option, least)| {
        let setting = line.parsed.last(option).filter(|_| !is_told(option))?;
        let text: String = setting.text.chars().take(40).collect();
        let message = match setting.value {
            Value::Int(size) if size < *least => format!(
                "{option} {text:?} is no number of ranks, though the parser of {engine} {release} takes it; it is counted as 1, \
                 write 1 or more"
            ),
            Value::Int(size) if size > MOST => format!(
                "{option} {text:?} is more than the devices of any cluster: the parser of {engine} {release} takes it, and \
                 the engine stops at start; write the number of GPUs"
            ),
            _ => return None,
        };
        Some(Finding::new(Code::Vg107, line.path_of(context, setting), message))
    });
    settings.collect()
}
