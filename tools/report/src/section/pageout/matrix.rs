// SPDX-License-Identifier: GPL-2.0
//! Where the order of the pages helps and where it does not: BIOs, requests, mappings and instructions by device, IOMMU
//! and reclaimer.

use super::*;

pub fn write(out: &mut Section, groups: &[Group]) {
    let mut table = Table::new(&[
        "THPs, per 8 MiB",
        "arm",
        "BIOs",
        "split by the block layer",
        "requests",
        "DMA mappings",
        "PAGEOUT, k instructions",
        "change",
    ]);
    for group in groups.iter().filter(|g| !timed(g) && !as_in_the_thread(g)) {
        for case in cases(group, "thp") {
            if !case.ends_with("/1") {
                continue;
            }
            for arm in group.arms() {
                let mut timed = groups.iter().filter(|g| costs(g, group, &case));
                let cost = timed.find(|g| g.arms().contains(&arm));
                table.row(row(group, &case, &arm, cost));
            }
            claim(out, group, &case);
        }
    }
    if table.rows.is_empty() {
        return;
    }
    out.text(
        "Where it helps, and where not. DMA mappings are calls of dma_iova_link() and dma_map_phys(): without translation \
         too, neighbours are mapped by one call, which shows in the order of the pages; what never maps, as zram, shows \
         nothing. BIOs, and what the block layer makes of them, are what a shared bio_vec can change. A reclaimer that \
         chooses for itself takes some pages of others with it; its counts are scaled to 8 MiB. Instructions are of the \
         thread that reclaims, without the refault, where the setting was timed.",
    );
    out.table(table);
    for (title, metrics) in [
        ("BIOs", &["bios"][..]),
        ("requests", &["requests"]),
        MAPPINGS,
    ] {
        out.follow_up
            .push(Block::Table(mail(groups, title, metrics)));
    }
    out.follow_up.push(Block::Table(mail_costs(groups)));
}

pub const MAPPINGS: (&str, &[&str]) = ("DMA mappings", &["iova_links", "dma_maps"]);
const ARMS: [&str; 3] = ["base", "c", "all-c"];

/// One count of the settings in which the follow-up was booted.
fn mail(groups: &[Group], title: &str, metrics: &[&str]) -> Table {
    let mut table = Table::new(&[&format!("{title} per 8 MiB"), ARMS[0], ARMS[1], ARMS[2]]);
    for group in groups.iter().filter(|g| !timed(g)) {
        let cases = cases(group, "thp");
        let Some(case) = cases.iter().find(|c| c.ends_with("/1")) else {
            continue;
        };
        if !group.arms().iter().any(|a| a == ARMS[2]) {
            continue;
        }
        let mut row = vec![in_short(group)];
        row.extend(ARMS.map(|a| range(&sum(group, a, case, metrics), thousands)));
        table.row(row);
    }
    table
}

fn mail_costs(groups: &[Group]) -> Table {
    let mut table = Table::new(&[
        "PAGEOUT of 8 MiB",
        "arm",
        "k instructions",
        "change",
        "verdict",
    ]);
    for group in groups.iter().filter(|g| timed(g)) {
        if !group.arms().iter().any(|a| a == ARMS[2]) {
            continue;
        }
        for case in cases(group, "thp") {
            for arm in group.arms() {
                let cells = row(group, &case, &arm, Some(group));
                let (change, verdict) = cells[7].split_once(" (").unwrap_or((&cells[7], ""));
                // Why it is nothing is in the report.
                let verdict = verdict.split([':', ')']).next().unwrap_or_default();
                let short = in_short(group);
                let cells = [&short, &arm, &cells[6], change, verdict];
                table.row(cells.map(str::to_string).to_vec());
            }
        }
    }
    table
}

pub fn sum(group: &Group, arm: &str, case: &str, metrics: &[&str]) -> Vec<i64> {
    let counts: Vec<_> = metrics.iter().map(|m| group.counts(arm, case, m)).collect();
    let boots = counts.iter().map(Vec::len).min().unwrap_or(0);
    (0..boots)
        .map(|i| counts.iter().map(|c| c[i]).sum())
        .collect()
}

/// Whether `other` timed what `counted` counted of this case.
fn costs(other: &Group, counted: &Group, case: &str) -> bool {
    timed(other) && setting(other) == setting(counted) && other.cases().iter().any(|c| c == case)
}

/// `nvme, translate, MADV_PAGEOUT`, and more where it is not as usual.
pub fn setting(group: &Group) -> String {
    let mut words = vec![match group.option("--swap") {
        Some("zram") => "zram".to_string(),
        _ => group.device().into(),
    }];
    words.push(match group.iommu() {
        Iommu::Translate => "translate".into(),
        Iommu::Passthrough => "passthrough".into(),
        Iommu::None => "no IOMMU".into(),
    });
    words.push(match group.option("--reclaim") {
        Some("memcg") => "memory.reclaim".into(),
        Some("kswapd") => "kswapd".into(),
        _ => "MADV_PAGEOUT".into(),
    });
    if group.args().contains("--partial") {
        words.push("partially mapped".into());
    }
    if group.lru() == Lru::Mglru {
        words.push("MGLRU".into());
    }
    words.join(", ")
}

/// For a line of mail.
fn in_short(group: &Group) -> String {
    setting(group)
        .replace(", MADV_PAGEOUT", "")
        .replace("memory.reclaim", "memcg")
        .replace("partially mapped", "partial")
}

fn row(group: &Group, case: &str, arm: &str, cost: Option<&Group>) -> Vec<String> {
    let cell = |metric| range(&group.counts(arm, case, metric), thousands);
    let mappings = sum(group, arm, case, MAPPINGS.1);
    let (mut ns, mut share) = ("–".to_string(), "–".to_string());
    if let Some(cost) = cost {
        let boots: Vec<f64> = cost
            .boots(arm, case, "pageout_ns")
            .iter()
            .map(|b| b.value)
            .collect();
        if let Some(median) = crate::stats::median(&boots) {
            ns = thousands((median / 1000.0).round() as i64);
        }
        let compared = comparisons(cost, case, "pageout_ns");
        if let Some((_, c)) = compared.iter().find(|(a, _)| a == arm) {
            share = format!("{} ({})", change(c.change), verdict(c));
        }
    }
    vec![
        setting(group),
        arm.into(),
        cell("bios"),
        cell("bio_splits"),
        cell("requests"),
        range(&mappings, thousands),
        ns,
        share,
    ]
}

fn claim(out: &mut Section, group: &Group, case: &str) {
    let shared = group.device() == "nvme-mdts0" && group.iommu() == Iommu::Passthrough;
    // The headline is one line; the table has the others.
    if shared && group.option("--reclaim").is_none() {
        out.claim(
            "BIOs per 8 MiB, passthrough IOMMU, no limit of the device",
            "not in the RFC",
            by_arm(group, case, "bios", thousands),
            &mthp::fewer(group, |arm| group.counts(arm, case, "bios")),
        );
    }
}
