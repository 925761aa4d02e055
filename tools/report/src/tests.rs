// SPDX-License-Identifier: GPL-2.0
//! Whole labs, made up: what the report says when all is there, and when something is not.

mod cost;

use crate::lab::Lab;
use crate::report::{self, Report};
use results::{Clock, Expectation, Kind, Line, Lru, Meta, SCHEMA};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

struct Boot {
    meta: Meta,
    lines: Vec<Line>,
}

fn boot(plan: &str, workload: &str, arm: &str, clock: Clock, number: u32) -> Boot {
    Boot {
        meta: Meta {
            plan: plan.into(),
            workload: workload.into(),
            args: "--pages thp".into(),
            arm: arm.into(),
            lru: Lru::Mglru,
            clock,
            accel: "tcg".into(),
            cpus: 1,
            memory_mib: 2048,
            device: "nvme".into(),
            iommu: results::Iommu::Translate,
            round: number / 4,
            boot: number,
            source: format!("{arm}-tree"),
        },
        lines: Vec::new(),
    }
}

impl Boot {
    fn lru(mut self, lru: Lru) -> Boot {
        self.meta.lru = lru;
        self
    }

    fn args(mut self, args: &str) -> Boot {
        self.meta.args = args.into();
        self
    }

    fn sample(mut self, case: &str, index: u32, values: &[(&str, i64)]) -> Boot {
        self.lines.push(Line {
            schema: SCHEMA,
            kind: Kind::Sample,
            kernel: format!("7.3.4-lab.{}", self.meta.arm),
            arm: self.meta.arm.clone(),
            lru: self.meta.lru,
            accel: "tcg".into(),
            clock: self.meta.clock,
            workload: self.meta.workload.clone(),
            case: case.into(),
            index,
            values: values.iter().map(|(k, v)| (k.to_string(), *v)).collect(),
            lists: BTreeMap::new(),
            message: String::new(),
        });
        self
    }

    fn list(mut self, name: &str, list: Vec<i64>) -> Boot {
        let last = self.lines.last_mut().unwrap();
        last.lists.insert(name.into(), list);
        self
    }

    fn write(mut self, dir: &Path) {
        let name = format!("{}.{}.{}", self.meta.plan, self.meta.boot, self.meta.arm);
        let dir = dir.join("runs").join(name);
        fs::create_dir_all(&dir).unwrap();
        let samples = self.lines.len() as i64;
        self = self.sample("", 0, &[("samples", samples)]);
        self.lines.last_mut().unwrap().kind = Kind::End;
        let text: String = self.lines.iter().map(|l| l.json() + "\n").collect();
        fs::write(dir.join("results.jsonl"), text).unwrap();
        let meta = serde_json::to_vec(&self.meta).unwrap();
        fs::write(dir.join("run.json"), meta).unwrap();
    }
}

/// Four THPs, written backwards or not.
fn pfns(backwards: bool) -> Vec<i64> {
    (0..4)
        .flat_map(|thp| {
            let first = 40960 + thp * 1024;
            let rest: Vec<i64> = match backwards {
                true => (1..512).rev().collect(),
                false => (1..512).collect(),
            };
            std::iter::once(first).chain(rest.into_iter().map(move |p| first + p))
        })
        .collect()
}

fn pageout_counts(arm: &str, number: u32) -> Boot {
    let links = if arm == "base" { 2047 } else { 64 };
    let values = [
        ("splits", 4),
        ("bios", 65),
        ("iova_links", links),
        ("swapped_pages", 2048),
    ];
    let control = [
        ("splits", 0),
        ("bios", 65),
        ("iova_links", 2044),
        ("swapped_pages", 2048),
    ];
    boot("pageout-counts", "pageout", arm, Clock::Counts, number)
        .sample("thp/1", 0, &values)
        .list("pfns", pfns(arm == "base"))
        .sample("base/1", 0, &control)
}

fn pageout_cpu(arm: &str, number: u32, total_us: i64) -> Boot {
    let ns = total_us * 1000;
    let control = 17_000_000 + i64::from(number) * 3000;
    let values = |t: i64| {
        [
            ("total_ns", t),
            ("pageout_ns", t - 4_128_000),
            ("refault_ns", 4_128_000),
        ]
    };
    boot("pageout-cpu", "pageout", arm, Clock::Icount, number)
        .sample("thp/1/warmup", 0, &values(99_000_000))
        .sample("thp/1", 0, &values(ns + 9000))
        .sample("thp/1", 1, &values(ns))
        .sample("thp/1", 2, &values(ns - 9000))
        .sample("base/1", 0, &values(control))
}

fn hotcold(arm: &str, number: u32, ns: i64) -> Boot {
    let values = |splits, ns, cold| {
        [
            ("splits", splits),
            ("cold_swapped_pages", cold),
            ("hot_swapped_pages", 0),
            ("reclaim_ns", ns),
            ("huge_kib", 262144),
        ]
    };
    boot("hotcold-mglru", "hotcold", arm, Clock::Icount, number)
        .sample("thp", 0, &values(33, ns, 16896))
        .sample(
            "base",
            0,
            &values(0, 38_000_000 + i64::from(number) * 1000, 16384),
        )
        .sample("idle", 0, &values(0, 0, 0))
}

fn thrash(plan: &str, arm: &str, number: u32, faults: impl Fn(u32) -> i64) -> Boot {
    let mut boot = boot(plan, "thrash", arm, Clock::Counts, number)
        .lru(Lru::Classic)
        .args("--anon 2048 --file 200");
    for round in 0..10 {
        let faults = faults(round);
        let policy = [
            ("policy_file_asked", 1000),
            ("policy_file_refaulted", 200),
            ("policy_file_low", 400),
            ("policy_file_decided", 30),
            ("policy_anon_asked", 900),
            ("policy_anon_refaulted", 20),
            ("policy_anon_low", 500),
            ("policy_anon_decided", 0),
            ("policy_trim_mode", 12),
            ("policy_trim_denied", 3),
        ];
        let mut values = vec![
            ("major_faults", faults),
            ("file_refaults", faults * 2),
            ("anon_refaults", 9),
            ("read_pages", faults * 3),
            ("swapout_pages", 5000),
        ];
        if arm != "base" {
            values.extend(policy);
        }
        boot = boot.sample("rounds", round, &values);
    }
    boot.sample(
        "readers",
        0,
        &[("swapout_pages", 77), ("major_faults", 9000)],
    )
}

fn mthp(arm: &str, number: u32) -> Boot {
    let mut boot = boot("mthp-swpout", "mthp-swpout", arm, Clock::Counts, number).lru(Lru::Classic);
    for i in 0..100 {
        boot = boot
            .sample("large", i, &[("swpout", 226), ("swpout_fallback", 0)])
            .sample(
                "large+small",
                i,
                &[("swpout", 220), ("swpout_fallback", i64::from(i) / 12)],
            );
    }
    boot
}

fn nonlinear(arm: &str, number: u32) -> Boot {
    let mut boot = boot("nonlinear", "nonlinear", arm, Clock::Counts, number).lru(Lru::Classic);
    for s in 0..40_i64 {
        for (case, pace) in [("nonlinear", 9_000), ("linear", 14_000)] {
            let free = (900_000 - s * 60_000).max(4_000);
            let swapped = (s - 15).max(0) * pace;
            let moved = if s > 15 { pace } else { 0 };
            boot = boot.sample(
                case,
                s as u32,
                &[
                    ("swapped_kib", swapped),
                    ("free_kib", free),
                    ("swapin_kib", moved / 3),
                    ("swapout_kib", moved),
                ],
            );
        }
    }
    boot.sample(
        "nonlinear/total",
        0,
        &[
            ("faults", 98_000),
            ("major_faults", 4_000),
            ("swapin_kib", 80_000),
            ("swapout_kib", 225_000),
        ],
    )
    .sample(
        "linear/total",
        0,
        &[
            ("faults", 88_000),
            ("major_faults", 3_000),
            ("swapin_kib", 120_000),
            ("swapout_kib", 350_000),
        ],
    )
    .sample(
        "map-limit",
        0,
        &[("limit", 65530), ("pieces", 65529), ("wall_ns", 123)],
    )
    .sample(
        "first-touch",
        0,
        &[("threads", 64), ("touched_pages", 400_000)],
    )
}

/// As the plan has it: A B A C A B A C A.
fn whole(dir: &Path) {
    for (number, arm) in (0..).zip(["base", "c", "rust", "base", "c", "rust"]) {
        pageout_counts(arm, number).write(dir);
    }
    let times = [
        17119, 15100, 17130, 15080, 17125, 15090, 17110, 15101, 17119, 15060, 17119, 15070, 17121,
    ];
    for (number, us) in (0..).zip(times) {
        let arm = ["base", "c", "base", "rust"][number as usize % 4];
        pageout_cpu(arm, number, us).write(dir);
        let ns = if arm == "base" {
            38_350_000
        } else {
            34_560_000
        };
        hotcold(arm, number, ns + i64::from(number) * 2000).write(dir);
    }
    for plan in ["thrash-seed", "thrash-even"] {
        thrash(plan, "base-counted", 0, |r| {
            [6400, 6400, 400, 0, 0][(r as usize).min(4)]
        })
        .write(dir);
        thrash(plan, "rust-counted", 1, |r| {
            [6400, 6400, 410, 0, 0][(r as usize).min(4)]
        })
        .write(dir);
        let blind = |r: u32| match plan {
            "thrash-seed" => [6400, 6400, 420, 0, 0][(r as usize).min(4)],
            _ => 6300 - i64::from(r),
        };
        thrash(plan, "refault-blind", 2, blind).write(dir);
    }
    for (number, arm) in (0..).zip(["base", "rust"]) {
        mthp(arm, number).write(dir);
        nonlinear(arm, number).write(dir);
    }
    let note = "{\"command\":\"make lab\",\"date\":\"2026-11-30\",\"qemu\":\"QEMU emulator version 7.2.1\",\"kernel\":\"7.3.4\",\"arms\":{\"base\":\"0123\"},\"complete\":true,\"key\":\"x\"}";
    fs::write(dir.join("lab.json"), note).unwrap();
}

fn make(write: impl Fn(&Path)) -> Report {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path());
    report::make(&Lab::read(dir.path(), None).unwrap()).unwrap()
}

/// The line of the summary about `what`.
fn row<'a>(report: &'a Report, what: &str) -> &'a str {
    let found = report.markdown.lines().find(|l| l.contains(what));
    found.unwrap_or_else(|| panic!("no row about {what} in\n{}", report.markdown))
}

#[test]
fn a_whole_lab() {
    let dir = tempfile::tempdir().unwrap();
    whole(dir.path());
    let mut lab = Lab::read(dir.path(), None).unwrap();
    let tsv = "pageout-counts\tthp/1\tbase\tiova_links\t2046\t2048\tx\npageout-counts\tthp/1\tc,rust\tiova_links\t1\t2\tthe order is kept\n";
    lab.expectations = Some(Expectation::parse(tsv).unwrap());
    let report = report::make(&lab).unwrap();
    for (what, verdict) in [
        (
            "IOVA links per 8 MiB",
            "| 2,047 → 64 | base 2,047, c 64, rust 64 | same |",
        ),
        ("BIOs per 8 MiB", "| 65 in each arm | same |"),
        (
            "order of the pages",
            "base 0 up and 2,040 down, c 2,044 up and 0 down",
        ),
        (
            "PAGEOUT + refault, THPs, 1 worker",
            "less, as in the thread",
        ),
        (
            "PAGEOUT + refault, base pages",
            "no difference, as in the thread",
        ),
        ("cold MiB in swap, mglru", "| 66 | 66 in each arm | same |"),
        ("reclaim call, thp", "less, as in the thread"),
        (
            "file rounds, refaults heeded",
            "cached from round 3 (thrash-even, thrash-seed)",
        ),
        ("file rounds, refaults ignored", "thrashes in thrash-even"),
        ("decisions that refaults changed", "300 of 19,000"),
        ("64 kB folios split, large, before", "same (model)"),
        ("64 kB folios split, large+small, today", "stays low"),
        ("nonlinear mappings swap", "works, data verified"),
    ] {
        let row = row(&report, what);
        assert!(row.contains(verdict), "{verdict}: {row}");
    }
    assert!(report.markdown.contains("2 values held and "));
    assert!(
        report
            .markdown
            .contains("expected 1 to 2: the order is kept")
    );
    assert!(report.plots.contains_key("pageout-counts-thp-1-order.svg"));
    assert!(
        report
            .markdown
            .contains("for each THP split, instructions (k) |")
    );
    // Time of an emulated CPU that counts nothing.
    assert!(!report.markdown.contains("wall_ns"));
    assert!(
        !report.markdown.contains("99,000 |"),
        "a warm-up is no sample"
    );
    assert!(report.cover.is_ascii());
    assert!(
        report.cover.lines().all(|l| l.len() <= 72),
        "{}",
        report.cover
    );
    for svg in report.plots.keys() {
        assert!(
            !report.html.contains(&format!("src=\"plots/{svg}")),
            "{svg}"
        );
    }
}

/// To look at: LAB_REPORT_SAMPLE=<folder> cargo test -p lab-report -- --ignored
#[test]
#[ignore = "writes a made-up report to look at"]
fn sample() {
    let dir = std::env::var_os("LAB_REPORT_SAMPLE").expect("LAB_REPORT_SAMPLE=<folder>");
    let dir = Path::new(&dir);
    whole(dir);
    let report = report::make(&Lab::read(dir, None).unwrap()).unwrap();
    report.write(dir).unwrap();
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let (one, two) = (make(whole), make(whole));
    assert_eq!(one.markdown, two.markdown);
    assert_eq!(one.html, two.html);
    assert_eq!(one.plots, two.plots);
    assert_eq!((one.tables, one.cover), (two.tables, two.cover));
}

fn passthrough(plan: &str, arm: &str, clock: Clock, number: u32, device: &str) -> Boot {
    let mut boot = boot(plan, "pageout", arm, clock, number).lru(Lru::Classic);
    boot.meta.device = device.into();
    boot.meta.iommu = results::Iommu::Passthrough;
    boot
}

#[test]
fn other_devices_and_sizes_have_tables_of_their_own() {
    let report = make(|dir| {
        for (number, arm, maps, bios) in [(0, "base", 2048, 65), (1, "all-c", 9, 5)] {
            let values = [
                ("bios", bios),
                ("bio_splits", 0),
                ("requests", 9),
                ("iova_links", 0),
                ("dma_maps", maps),
            ];
            passthrough("pt", arm, Clock::Counts, number, "nvme-mdts0")
                .sample("thp/1", 0, &values)
                .write(dir);
            let links = if arm == "base" { 2047 } else { 64 };
            boot("sizes", "pageout", arm, Clock::Counts, number)
                .args("--pages 64k,16k")
                .sample(
                    "64k/1",
                    0,
                    &[("iova_links", links), ("dma_maps", 1), ("splits", 128)],
                )
                .sample(
                    "16k/1",
                    0,
                    &[("iova_links", links), ("dma_maps", 1), ("splits", 512)],
                )
                .write(dir);
            boot("order", "pageout", arm, Clock::Counts, number)
                .args("--pages base --layout ordered")
                .sample("base-ordered/1", 0, &[("iova_links", 2044)])
                .list("pfns", pfns(true))
                .write(dir);
        }
        for (number, arm) in (0..).zip(["base", "all-c", "base"]) {
            let ns = if arm == "base" {
                11_000_000
            } else {
                10_000_000
            };
            passthrough("pt-cpu", arm, Clock::Icount, number, "nvme-mdts0")
                .sample("thp/1", 0, &[("pageout_ns", ns)])
                .write(dir);
        }
    });
    let text = &report.markdown;
    let setting = "nvme-mdts0, passthrough, MADV_PAGEOUT";
    for row in [
        format!("| {setting} | base | 65 | 0 | 9 | 2,048 | 11,000 | – |"),
        format!("| {setting} | all-c | 5 | 0 | 9 | 9 | 10,000 | −9.09% ("),
        "| 16 kB | 2,048 | 65 | 512 in each arm | – |".into(),
        "| ordered, nvme, translate, MADV_PAGEOUT, MGLRU, 1 | base | 0 | 2,040 | 2,044 | 2,048 | 68 | 64 | 64 |".into(),
        "DMA mappings per 8 MiB, folios of 64 kB | not in the RFC | base 2,048, all-c 65 | fewer: all-c |".into(),
        "| not in the RFC | base 65, all-c 5 | fewer: all-c |".into(),
    ] {
        assert!(text.contains(&row), "{row}\n{text}");
    }
    let mail = report.follow_up.as_deref().unwrap();
    for row in [
        "  nvme-mdts0, passthrough  all-c          10,000  -9.09%  nothing\n",
        "  16 kB                              2,048     65\n",
        "  nvme-mdts0, passthrough    65  -      5\n",
    ] {
        assert!(mail.contains(row), "{row}\n{mail}");
    }
    // None of it is taken for what the thread measured.
    assert!(!text.contains("2,047 → 64"));
    assert!(report.plots.contains_key("sizes-links.svg"));
}

#[test]
fn written_files_can_be_checked() {
    let dir = tempfile::tempdir().unwrap();
    pageout_counts("base", 0).write(dir.path());
    let report = report::make(&Lab::read(dir.path(), None).unwrap()).unwrap();
    assert!(report.stale(dir.path()).contains(&"report.md".to_string()));
    report.write(dir.path()).unwrap();
    assert!(report.stale(dir.path()).is_empty());
    fs::write(dir.path().join("plots/old.svg"), "x").unwrap();
    report.write(dir.path()).unwrap();
    assert!(!dir.path().join("plots/old.svg").exists());
}

#[test]
fn a_missing_arm_is_no_comparison() {
    let report = make(|dir| {
        pageout_counts("rust", 0).write(dir);
        pageout_cpu("rust", 0, 15100).write(dir);
    });
    assert!(row(&report, "IOVA links").contains("| rust 64 | same |"));
    assert!(row(&report, "PAGEOUT + refault, THPs").contains("not measured"));
    assert!(report.markdown.contains("Only rust ran with this clock"));
    assert!(
        report
            .markdown
            .contains("Not in this lab: hotcold, thrash, mthp-swpout, nonlinear and cost.")
    );
}

#[test]
fn drift_forbids_a_claim_of_its_own_size() {
    let boots = [
        ("base", 17000),
        ("rust", 16800),
        ("base", 17200),
        ("rust", 16810),
        ("base", 17100),
        ("rust", 16790),
        ("base", 17050),
    ];
    let report = make(|dir| {
        for (number, (arm, us)) in (0..).zip(boots) {
            pageout_cpu(arm, number, us).write(dir);
        }
    });
    let row = row(&report, "PAGEOUT + refault, THPs");
    assert!(
        row.contains("not shown (rust: nothing: A drifts as much)"),
        "{row}"
    );
    assert!(report.markdown.contains("1.18%"), "{}", report.markdown);
}

#[test]
fn one_boot_says_nothing_about_drift() {
    let report = make(|dir| {
        pageout_cpu("base", 0, 17000).write(dir);
        pageout_cpu("rust", 1, 15000).write(dir);
    });
    assert!(row(&report, "PAGEOUT + refault, THPs").contains("A booted once"));
    assert!(
        report
            .markdown
            .contains("needs at least four boots of each")
    );
}

#[test]
fn a_metric_missing_in_one_run_is_said() {
    let report = make(|dir| {
        pageout_counts("base", 0).write(dir);
        pageout_counts("rust", 1).write(dir);
        let mut bad = pageout_counts("rust", 2);
        bad.lines[0].values.remove("iova_links");
        bad.write(dir);
    });
    let want = "**Missing:** run pageout-counts.2.rust reported no `iova_links` of thp/1.";
    assert!(report.markdown.contains(want), "{}", report.markdown);
    assert!(row(&report, "IOVA links").contains("same"));
}

#[test]
fn counts_that_differ_are_shown_as_a_range() {
    let report = make(|dir| {
        pageout_counts("base", 0).write(dir);
        let mut other = pageout_counts("base", 1);
        other.lines[0].values.insert("iova_links".into(), 2031);
        other.write(dir);
    });
    let row = row(&report, "IOVA links");
    assert!(row.contains("base 2,031–2,047 | differs"), "{row}");
    assert!(
        report
            .markdown
            .contains("where they differ the range is shown")
    );
}

#[test]
fn an_unfinished_lab_is_called_so() {
    let report = make(|dir| {
        pageout_counts("base", 0).write(dir);
        fs::write(dir.join("lab.json"), "{\"complete\":false}").unwrap();
    });
    assert!(report.markdown.contains("not complete"));
}

#[test]
fn nothing_to_report_is_an_error_with_a_next_step() {
    let dir = tempfile::tempdir().unwrap();
    let error = || format!("{:#}", Lab::read(dir.path(), None).err().unwrap());
    assert!(error().contains("`make lab` makes a folder"), "{}", error());
    fs::create_dir(dir.path().join("runs")).unwrap();
    assert!(error().contains("holds no finished run"), "{}", error());
    pageout_counts("base", 0).write(dir.path());
    fs::write(dir.path().join("lab.json"), "{").unwrap();
    assert!(error().contains("lab.json is damaged"), "{}", error());
    fs::remove_file(dir.path().join("lab.json")).unwrap();
    let missing = dir.path().join("expect.tsv");
    let e = format!("{:#}", Lab::read(dir.path(), Some(&missing)).err().unwrap());
    assert!(e.contains("--expect names lab/expect.tsv"), "{e}");
}
