//! The text of `check` for people: a line for each object, then why, who holds what, and what to change.

use std::fmt::Write as _;

use crate::cli::output::{Paint, clean};
use crate::document::{Checked, Decision};
use crate::finding::{Finding, Fix, HolderRef, Number, Severity};
use crate::policy::Evidence;

/// The whole report.
pub(super) fn render(items: &[Checked], paint: Paint) -> String {
    let mut text = String::new();
    for item in items {
        // Writing to a string cannot fail.
        let _ = object(&mut text, item, paint);
    }
    if items.is_empty() {
        return "No object asks for a GPU; nothing was judged.\n".to_owned();
    }
    let denied = items.iter().filter(|item| item.verdict == Decision::Deny).count();
    let warnings = items
        .iter()
        .flat_map(|item| &item.findings)
        .filter(|finding| finding.severity == Severity::Warning)
        .count();
    let plural = if warnings == 1 { "" } else { "s" };
    let _ = writeln!(text, "{} admitted, {denied} denied, {warnings} warning{plural}", items.len() - denied);
    text
}

fn object(text: &mut String, item: &Checked, paint: Paint) -> std::fmt::Result {
    let verdict = match item.verdict {
        Decision::Admit => paint.good("admit"),
        Decision::Deny => paint.bad("deny "),
    };
    let reference = &item.object;
    let name = clean(&format!("{} {}/{}", reference.kind, reference.namespace, reference.name));
    writeln!(text, "{verdict}  {name}")?;
    for reason in &item.findings {
        finding(text, reason, paint)?;
    }
    for row in &item.placement {
        let device = row.device.as_deref().unwrap_or("(one of its devices)");
        writeln!(
            text,
            "       on {} {}: {} of {} MiB promised, {} of {} (evidence: {})",
            clean(&row.node),
            clean(device),
            row.promised.get(),
            row.budget.get(),
            row.promised_fraction.decimals(2),
            row.budget_fraction.decimals(2),
            evidence(row.evidence),
        )?;
    }
    Ok(())
}

const fn evidence(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Any => "any",
        Evidence::Spread => "spread",
        Evidence::Observed => "observed",
    }
}

fn finding(text: &mut String, finding: &Finding, paint: Paint) -> std::fmt::Result {
    let severity = finding.severity.as_str();
    let severity = match finding.severity {
        Severity::Error => paint.bad(severity),
        Severity::Warning => paint.doubtful(severity),
        Severity::Info => severity.to_owned(),
    };
    writeln!(text, "       {severity} {}: {}", finding.code, clean(&finding.message))?;
    if !finding.path.as_str().is_empty() {
        writeln!(text, "         at {}", clean(finding.path.as_str()))?;
    }
    for detail in &finding.details {
        writeln!(text, "         {}", clean(detail))?;
    }
    if !finding.numbers.is_empty() {
        let numbers: Vec<String> =
            finding.numbers.iter().map(|(name, number)| format!("{name} {}", clean(&shown(number)))).collect();
        writeln!(text, "         numbers: {}", numbers.join(", "))?;
    }
    for holder in &finding.holders {
        writeln!(text, "         held by {}", clean(&holder_line(holder)))?;
    }
    for fix in &finding.fixes {
        writeln!(text, "         fix: {}", clean(&fix_line(fix)))?;
    }
    Ok(())
}

fn shown(number: &Number) -> String {
    match number {
        Number::Count(count) => count.to_string(),
        Number::Memory(mib) => mib.get().to_string(),
        Number::Share(share) => share.decimals(2),
        Number::Text(text) => text.clone(),
    }
}

fn holder_line(holder: &HolderRef) -> String {
    let who = match (&holder.namespace, &holder.name) {
        (Some(namespace), Some(name)) => {
            let container = holder.container.as_deref().map(|name| format!(" container {name}")).unwrap_or_default();
            format!("{namespace}/{name}{container}")
        }
        _ => "a pod of another namespace".to_owned(),
    };
    format!("{who}: {} MiB, {}", holder.request.get(), holder.share.decimals(2))
}

fn fix_line(fix: &Fix) -> String {
    if fix.patch.is_empty() {
        return fix.title.clone();
    }
    let patch = serde_json::to_string(&fix.patch).unwrap_or_default();
    format!("{}  {patch}", fix.title)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::{PlacementRow, Verdict};
    use crate::finding::{Code, FieldPath};
    use crate::units::{Mib, Share};
    use crate::workload::ObjectRef;

    fn checked(name: &str, verdict: Verdict) -> Checked {
        let object = ObjectRef {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: "llm".into(),
            name: name.into(),
        };
        Checked::new(object, verdict)
    }

    #[test]
    fn a_denial_reads_top_down() {
        let mut finding = Finding::new(Code::Vg201, FieldPath::new("spec.containers[0].args[1]"), "no room")
            .detail("0.90 are promised already.")
            .number("requestMiB", Number::Memory(Mib::new(24_468)));
        finding.holders.push(HolderRef {
            namespace: Some("llm".into()),
            name: Some("chat-a".into()),
            container: Some("server".into()),
            request: Mib::new(24_468),
            share: Share::from_ppm(300_000),
        });
        finding.holders.push(HolderRef {
            namespace: None,
            name: None,
            container: None,
            request: Mib::new(8),
            share: Share::from_ppm(100),
        });
        let finding = finding.fix(Fix { title: "add a GPU".into(), patch: Vec::new() });
        let row = PlacementRow {
            node: "gpu-node-1".into(),
            device: Some("nvidia.com/gpu[0]".into()),
            evidence: Evidence::Observed,
            promised: Mib::new(73_404),
            budget: Mib::new(73_403),
            promised_fraction: Share::from_ppm(900_000),
            budget_fraction: Share::from_ppm(900_000),
        };
        let denied = Verdict { findings: vec![finding], ..Verdict::default() };
        let admitted = Verdict { admit: true, placement: vec![row], ..Verdict::default() };
        let items = [checked("chat-c", admitted), checked("chat-d", denied)];
        assert_eq!(
            render(&items, Paint::PLAIN),
            "\
admit  Pod llm/chat-c
       on gpu-node-1 nvidia.com/gpu[0]: 73404 of 73403 MiB promised, 0.90 of 0.90 (evidence: observed)
deny   Pod llm/chat-d
       error VG201: no room
         at spec.containers[0].args[1]
         0.90 are promised already.
         numbers: requestMiB 24468
         held by llm/chat-a container server: 24468 MiB, 0.30
         held by a pod of another namespace: 8 MiB, 0.0001
         fix: add a GPU
1 admitted, 1 denied, 0 warnings
"
        );
    }

    #[test]
    fn names_cannot_write_to_the_terminal() {
        let verdict = Verdict { admit: true, ..Verdict::default() };
        let text = render(&[checked("a\u{1b}[2Jb\n", verdict)], Paint::PLAIN);
        assert!(text.starts_with("admit  Pod llm/a\u{fffd}[2Jb\u{fffd}\n"), "{text:?}");
    }

    #[test]
    fn nothing_to_judge_says_so() {
        assert_eq!(render(&[], Paint::PLAIN), "No object asks for a GPU; nothing was judged.\n");
    }
}
