// SPDX-License-Identifier: GPL-2.0
//! How large the arms' objects are, as the lab noted when it built them.

use super::*;
use crate::lab::Info;
use results::Sizes;

/// The policies, wherever they are.
const POLICIES: [&str; 2] = ["mm/vmscan.o", "mm/vmscan_policy.o"];
/// What Rust may add to the code of C, in bytes.
const MOST: i64 = 1024;

/// The arms with the policies in Rust and nothing else, and how they are called.
const RUST: [(&str, &str); 2] = [("rust", "rust"), ("rust-inline", "rust, helpers inlined")];

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
    needs(&mut out, info);
    Some(out)
}

/// What the object with the policies takes from elsewhere, by name. That nothing behind these names leads to a panic
/// either is followed in the kernel's code by `make test`.
fn needs(out: &mut Section, info: &Info) {
    let mut cells = Vec::new();
    let mut panics = 0;
    for (arm, label) in RUST {
        let Some(symbols) = info.needs.get(arm) else {
            continue;
        };
        let names: Vec<String> = symbols
            .iter()
            .map(|s| format!("{:#}", rustc_demangle::demangle(s)))
            .collect();
        let of_panics = names.iter().filter(|n| ends_in_a_panic(n)).count();
        panics += of_panics;
        cells.push(format!("{label} {of_panics} of {}", names.len()));
        let all = format!(
            "{} takes from elsewhere, with {label}: {}.",
            POLICIES[1],
            names.join(", ")
        );
        out.text(all.clone());
        if arm == "rust" {
            out.mail.push(Block::Text(all));
        }
    }
    if !cells.is_empty() {
        let what = format!("panic functions among what {} refers to", POLICIES[1]);
        let verdict = if panics == 0 { "none" } else { "some" };
        out.claim(&what, "0", cells.join("; "), verdict);
    }
}

fn ends_in_a_panic(name: &str) -> bool {
    ["panic", "rust_begin_unwind", "rust_helper_BUG"]
        .iter()
        .any(|p| name.contains(p))
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
    let rust: Vec<(&str, i64)> = RUST
        .iter()
        .filter_map(|(arm, label)| Some((*label, of(arm)?)))
        .collect();
    if let Some(most) = rust.iter().map(|(_, n)| n - c).max() {
        let verdict = match most <= MOST {
            true => "within 1 KiB",
            false => "more than 1 KiB",
        };
        let what = format!("code of {files}, bytes");
        let cells: Vec<String> = rust
            .iter()
            .map(|(label, n)| format!("{label} {}", more(*n)))
            .collect();
        out.claim(&what, &against, cells.join("; "), verdict);
        let words: Vec<String> = rust
            .iter()
            .map(|(label, n)| format!("{} with {label} ({})", thousands(*n), more(*n)))
            .collect();
        out.mail.push(Block::Text(format!(
            "Code of {files}: {} bytes with c, {}.",
            thousands(c),
            words.join(", ")
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

#[cfg(test)]
mod tests {
    use super::*;

    fn info(symbols: &[&str]) -> Info {
        let sizes = Sizes::from([(
            "mm/vmscan.o".to_string(),
            results::Size {
                text: 100,
                ..Default::default()
            },
        )]);
        Info {
            sizes: ["c", "rust"].map(|a| (a.to_string(), sizes.clone())).into(),
            needs: [(
                "rust".to_string(),
                symbols.iter().map(|s| s.to_string()).collect(),
            )]
            .into(),
            ..Default::default()
        }
    }

    #[test]
    fn a_panic_is_counted_by_its_demangled_name() {
        let panic = "_RNvNtCs1peUGmbrgHn_4core9panicking18panic_bounds_check";
        for (symbols, verdict) in [(&["int_sqrt"][..], "none"), (&["int_sqrt", panic], "some")] {
            let section = section(&info(symbols)).unwrap();
            let claim = section.claims.iter().find(|c| c.what.contains("panic"));
            assert_eq!(claim.unwrap().verdict, verdict);
        }
    }
}
