//! `vramgate top`: devices, sharers and sums.

use comfy_table::{CellAlignment, Table};

use super::args::{Output, Top};
use super::output::{Paint, clean};
use super::{Failure, output, policies, state};
use crate::document::{DeviceHolder, DeviceRow, Document, Kind};
use crate::ledger::Ledger;
use crate::units::Mib;

/// Shows the devices.
pub(super) fn run(args: &Top) -> Result<(), Failure> {
    let snapshot = state::of(&args.cluster)?;
    let policies = policies::load(args.cluster.policy_dir.as_deref(), &snapshot)?;
    let mut ledger = Ledger::new(policies);
    snapshot.fill(&mut ledger);
    let rows: Vec<DeviceRow> = ledger.devices().into_iter().map(DeviceRow::from).collect();
    match args.output {
        Output::Json => output::print_json(&Document::new(Kind::DeviceList, rows)),
        Output::Text => output::print(&text(&rows, args.holders, Paint::for_stdout())),
    }
}

const HEADER: [&str; 10] = [
    "NODE",
    "DEVICE",
    "PRODUCT",
    "SHARING",
    "SLOTS",
    "PROMISED MiB",
    "BUDGET MiB",
    "PROMISED",
    "BUDGET",
    "EVIDENCE",
];
/// The columns of numbers, which line up on the right.
const NUMBERS: std::ops::Range<usize> = 4..9;

pub(super) fn text(rows: &[DeviceRow], with_holders: bool, paint: Paint) -> String {
    if rows.is_empty() {
        return "No node offers an NVIDIA device.\n".to_owned();
    }
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(HEADER);
    for row in rows {
        table.add_row(cells(row));
    }
    for column in NUMBERS {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = String::new();
    let mut lines = table.lines();
    if let Some(header) = lines.next() {
        text.push_str(header.trim());
        text.push('\n');
    }
    for (line, row) in lines.zip(rows) {
        text.push_str(line.trim());
        if row.is_over_budget() {
            text.push_str("  ");
            text.push_str(&paint.bad("OVER BUDGET"));
        }
        text.push('\n');
        if with_holders {
            holders(&mut text, row);
        }
    }
    let over = rows.iter().filter(|row| row.is_over_budget()).count();
    if over > 0 {
        let line = format!("{over} of {} over budget\n", rows.len());
        text.push_str(&line);
    }
    text
}

fn cells(row: &DeviceRow) -> [String; 10] {
    let memory = |mib: Option<Mib>| mib.map_or_else(|| "unknown".to_owned(), |mib| mib.get().to_string());
    [
        row.node.clone(),
        row.device.clone().unwrap_or_else(|| row.resource.clone()),
        row.product.clone(),
        row.sharing.to_owned(),
        format!("{}/{}", row.used_slots, row.slots),
        row.promised.get().to_string(),
        memory(row.budget),
        row.promised_fraction.decimals(2),
        row.budget_fraction.decimals(2),
        row.evidence.as_str().to_owned(),
    ]
    .map(|cell| clean(&cell))
}

fn holders(text: &mut String, row: &DeviceRow) {
    for holder in &row.holders {
        // Of a device of unknown size a fraction is no number of MiB.
        let amount = if row.total.is_none() && holder.request == Mib::ZERO {
            "size unknown".to_owned()
        } else {
            format!("{} + {} MiB", holder.request.get(), holder.overhead.get())
        };
        let line = format!(
            "  {}/{} {} rank {}: {amount}, {}{}{}",
            holder.namespace,
            holder.name,
            holder.container,
            holder.rank,
            holder.share.decimals(2),
            if holder.waiting { ", waits" } else { "" },
            seen_on(row, holder),
        );
        text.push_str(&clean(&line));
        text.push('\n');
    }
}

/// The devices of a holder, where the row does not say it already.
fn seen_on(row: &DeviceRow, holder: &DeviceHolder) -> String {
    if row.device.is_some() || holder.devices.is_empty() {
        return String::new();
    }
    format!(", seen on {}", holder.devices.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::DeviceHolder;
    use crate::policy::Evidence;
    use crate::units::Share;

    fn row(node: &str, promised: u64) -> DeviceRow {
        DeviceRow {
            node: node.into(),
            resource: "nvidia.com/gpu".into(),
            device: Some("nvidia.com/gpu[0]".into()),
            product: "NVIDIA-H100-80GB-HBM3".into(),
            sharing: "time-slicing",
            slots: 4,
            used_slots: 1,
            total: Some(Mib::new(81_559)),
            budget: Some(Mib::new(73_403)),
            promised: Mib::new(24_468),
            budget_fraction: Share::from_ppm(900_000),
            promised_fraction: Share::from_ppm(promised),
            bound_fraction: Share::from_ppm(promised),
            evidence: Evidence::Observed,
            holders: vec![DeviceHolder {
                namespace: "llm".into(),
                name: "chat-a".into(),
                container: "server".into(),
                rank: 0,
                request: Mib::new(24_468),
                overhead: Mib::new(640),
                share: Share::from_ppm(300_000),
                waiting: false,
                devices: Vec::new(),
            }],
        }
    }

    #[test]
    fn rows_above_their_budget_are_marked() {
        let text = text(
            &[row("gpu-a", 300_000), row("gpu-b", 900_001)],
            true,
            Paint::PLAIN,
        );
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].trim_start().starts_with("NODE"), "{text}");
        assert!(
            lines[1].contains("gpu-a") && lines[1].contains("1/4") && !lines[1].contains("OVER"),
            "{text}"
        );
        assert_eq!(lines[2], "  llm/chat-a server rank 0: 24468 + 640 MiB, 0.30");
        assert!(
            lines[3].contains("0.900001") && lines[3].ends_with("OVER BUDGET"),
            "{text}"
        );
        assert_eq!(lines.last(), Some(&"1 of 2 over budget"));
    }

    #[test]
    fn a_cluster_without_devices_says_so() {
        assert_eq!(
            text(&[], false, Paint::PLAIN),
            "No node offers an NVIDIA device.\n"
        );
    }
}
