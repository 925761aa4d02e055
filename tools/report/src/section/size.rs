// SPDX-License-Identifier: GPL-2.0
//! How large the arms' objects are, as the lab noted when it built them.

use super::*;
use crate::lab::Info;
use results::Sizes;

/// The policies, wherever they are.
const POLICIES: [&str; 2] = ["mm/vmscan.o", "mm/vmscan_policy.o"];
/// What Rust may add to the code of C, in bytes.
const MOST: i64 = 1024;

const COLUMNS: [&str; 5] = [
    "vmlinux",
    "mm/vmscan.o",
    "mm/vmscan_policy.o",
    "rust/kernel.o",
    "rust/helpers/helpers.o",
];

/// Nothing of a lab that noted no sizes.
pub fn section(info: &Info) -> Option<Section> {
    if info.sizes.is_empty() {
        return None;
    }
    let mut out = Section::new("size", "size: code of the kernels");
    out.text(
        "Sections with code (`.text*`, `.init.text`, `.exit.text`, `.ref.text`), in bytes. rust/kernel.o holds the \
         abstractions, which are in every kernel with CONFIG_RUST, used or not.",
    );
    let mut head = vec!["arm".to_string()];
    head.extend(COLUMNS.map(|f| format!("{f}, code")));
    head.push("vmlinux, data".into());
    let mut table = Table::new(&head);
    for (arm, sizes) in &info.sizes {
        let shown = |n: Option<u64>| n.map_or("–".into(), |n| thousands(n as i64));
        let mut row = vec![arm.clone()];
        row.extend(COLUMNS.map(|f| shown(sizes.get(f).map(|s| s.text))));
        row.push(shown(sizes.get("vmlinux").map(|s| s.rodata + s.data)));
        table.row(row);
    }
    out.table(table);
    claims(&mut out, info);
    Some(out)
}

fn policies(sizes: &Sizes) -> i64 {
    let texts = POLICIES.iter().filter_map(|f| sizes.get(*f));
    texts.map(|s| s.text as i64).sum()
}

fn claims(out: &mut Section, info: &Info) {
    let of = |arm: &str| info.sizes.get(arm).map(policies);
    let files = POLICIES.join(" and ");
    let Some(c) = of("c") else { return };
    let against = format!("C: {}", thousands(c));
    let more = |n: i64| match n - c {
        d @ 1.. => format!("+{}", thousands(d)),
        d => thousands(d),
    };
    if let Some(rust) = of("rust") {
        let verdict = match rust - c <= MOST {
            true => "within 1 KiB",
            false => "more than 1 KiB",
        };
        let what = format!("code of {files}, bytes");
        out.claim(&what, &against, format!("rust {}", more(rust)), verdict);
        out.mail.push(Block::Text(format!(
            "Code of {files}: {} bytes with C, {} with Rust ({}).",
            thousands(c),
            thousands(rust),
            more(rust)
        )));
    }
    if let Some(first) = of("c-patches") {
        let verdict = if first == c { "same" } else { "differs" };
        let what = format!("code of {files} with the C patches alone, bytes");
        out.claim(
            &what,
            &against,
            format!("c-patches {}", more(first)),
            verdict,
        );
    }
}
