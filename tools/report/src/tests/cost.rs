// SPDX-License-Identifier: GPL-2.0
//! Instructions and sizes.

use super::*;

fn policies(arm: &str, number: u32, rust_511: i64, rust_8gb: i64) -> Boot {
    let stub = 18;
    let ordered = |each: i64, n: i64| stub + 26 + each * n;
    let mut boot = boot("cost", "cost", arm, Clock::Icount, number);
    for n in [1, 511, 1023] {
        let rust = if n == 511 { rust_511 } else { ordered(5, n) };
        let moved = ordered(12, n);
        boot = boot.sample(
            &format!("order/{n}"),
            0,
            &[
                ("stub_instructions", stub),
                ("move_instructions", moved),
                ("c_instructions", ordered(5, n)),
                ("rust_instructions", rust),
                (
                    "rust_of_move_permille",
                    (rust - stub) * 1000 / (moved - stub),
                ),
                ("spread_instructions", 0),
            ],
        );
    }
    boot.sample(
        "decide/8gb",
        0,
        &[
            ("c_instructions", 69),
            ("rust_instructions", rust_8gb),
            ("rust_above_c_instructions", rust_8gb - 69),
            ("spread_instructions", 0),
        ],
    )
}

fn split(arm: &str, number: u32, median: i64) -> Boot {
    let values = [
        ("splits", 64),
        ("disturbed_splits", 20 + i64::from(number)),
        ("least_instructions", median - 8),
        ("median_instructions", median),
    ];
    boot("cost-split", "cost", arm, Clock::Icount, number).sample("thp", 0, &values)
}

fn sizes(dir: &Path, policy: u64, c_patches: u64) {
    let size = |text| format!("{{\"text\":{text},\"rodata\":7,\"data\":5}}");
    let arm = |vmscan: u64, policy: u64| {
        format!(
            "{{\"vmlinux\":{},\"mm/vmscan.o\":{},\"mm/vmscan_policy.o\":{}}}",
            size(1_000_000 + vmscan + policy),
            size(vmscan),
            size(policy)
        )
    };
    let note = format!(
        "{{\"sizes\":{{\"c\":{},\"c-patches\":{},\"rust\":{}}}}}",
        arm(79_000, 0),
        arm(c_patches, 0),
        arm(78_900, policy)
    );
    fs::write(dir.join("lab.json"), note).unwrap();
}

#[test]
fn goals_that_are_met() {
    let report = make(|dir| {
        for number in [0, 2] {
            policies("cost", number, 2600, 71).write(dir);
        }
        policies("cost-inline", 1, 2590, 70).write(dir);
        split("cost-base", 0, 554_291).write(dir);
        split("cost-c", 1, 556_900).write(dir);
        split("cost", 2, 556_920).write(dir);
        sizes(dir, 400, 79_000);
    });
    let order = row(&report, "order of 511 children");
    assert!(
        order.contains("the RFC's loop: 6,158 | c 2,581, rust 2,582 | Rust: at most half"),
        "{order}"
    );
    assert!(
        report
            .markdown
            .contains("as many instructions in Rust as in C")
    );
    assert!(row(&report, "each further child").contains("| 12.00 | 5.00 |"));
    let decision = row(&report, "one decision");
    assert!(
        decision.contains("rust +2; rust, helpers inlined +1 | within 2 of C"),
        "{decision}"
    );
    assert!(report.markdown.contains("agree to the instruction"));
    let split = row(&report, "cost: split of a THP");
    assert!(
        split.contains("c +2,609 (+0.47%), rust +2,629 (+0.47%) | at most +0.47%"),
        "{split}"
    );
    assert!(row(&report, "| without the series | 64 | 20 |").contains("554,283"));
    let size = row(&report, "vmscan_policy.o, bytes");
    assert!(
        size.contains("C: 79,000 | rust +300 | within 1 KiB"),
        "{size}"
    );
    assert!(row(&report, "C patches alone").contains("c-patches 0 | same"));
    assert_eq!(report.plots.len(), 1);
    // They are held against something, so the README has them; and so has the cover letter.
    assert!(report.tables.contains("order of 511 children"));
    assert!(report.cover.contains("order of 511 children"));
}

#[test]
fn goals_that_are_missed() {
    let report = make(|dir| {
        policies("cost", 0, 3200, 72).write(dir);
        policies("cost", 1, 3201, 72).write(dir);
        sizes(dir, 1200, 78_000);
    });
    assert!(row(&report, "order of 511 children").contains("Rust: more than half"));
    assert!(
        !report
            .markdown
            .contains("as many instructions in Rust as in C")
    );
    assert!(row(&report, "one decision").contains("up to 3 from C"));
    assert!(row(&report, "vmscan_policy.o, bytes").contains("more than 1 KiB"));
    assert!(row(&report, "C patches alone").contains("c-patches −1,000 | differs"));
    assert!(
        report
            .markdown
            .contains("the 2 boots, by arm, by at most 1")
    );
}
