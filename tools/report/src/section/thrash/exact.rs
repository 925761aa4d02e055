// SPDX-License-Identifier: GPL-2.0
//! What comes of it if reclaim sees refaults as they happen, not when statistics are flushed.

use super::*;

const EXACT: &str = "refault-exact";
/// Boots of one kernel are nearly that far apart, as statistics are flushed by time.
const CLEAR: f64 = 1.5;

pub fn claims(out: &mut Section, groups: &[Group]) {
    for group in groups {
        if let Some((ours, verdict)) = claim(group) {
            let what = format!("refaults seen as they happen, {}", group.plan);
            out.claim(&what, "–", ours, verdict);
        }
    }
}

fn claim(group: &Group) -> Option<(String, &'static str)> {
    let case = rounds_case(group)?;
    let arms: Vec<String> = group.arms().into_iter().filter(|a| heeds(a)).collect();
    let metric = measure(group);
    let of = |arms: &[String], metric: &str| -> Vec<i64> {
        arms.iter()
            .flat_map(|a| group.sums(a, &case, metric))
            .collect()
    };
    let exact = [EXACT.to_string()];
    let (before, after) = (of(&arms, metric), of(&exact, metric));
    let (low, high) = (before.iter().min()?, before.iter().max()?);
    let (least, most) = (after.iter().min()?, after.iter().max()?);
    let cell = |arms: &[String], metric: &str| range(&of(arms, metric), thousands);
    let both = |metric: &str| format!("{} → {}", cell(&arms, metric), cell(&exact, metric));
    let ours = format!(
        "decisions that see a refault {} (of {}); {} {}",
        both("policy_file_refaulted"),
        both("policy_file_asked"),
        metric.replace('_', " "),
        both(metric)
    );
    let verdict = match () {
        _ if *most as f64 * CLEAR < *low as f64 => "less",
        _ if *least as f64 > CLEAR * *high as f64 => "more",
        _ => "no clear change",
    };
    Some((ours, verdict))
}
