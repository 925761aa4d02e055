// SPDX-License-Identifier: GPL-2.0
//! The policy's reach: each workload under four semantics of the refault comparison, a line each.

use super::*;

/// The other semantics: arm, heading.
pub const OTHERS: [(&str, &str); 3] = [
    ("refault-2019", "2019"),
    ("refault-blind", "blind"),
    ("refault-removed", "removed"),
];
/// What an arm decided otherwise than today's comparison would have, had it been in the same place.
const OTHERWISE: [&str; 3] = [
    "policy_file_ignored",
    "policy_anon_ignored",
    "policy_trim_ignored",
];
const DECIDED: [&str; 2] = ["policy_file_decided", "policy_anon_decided"];
const ASKED: [&str; 2] = ["policy_file_asked", "policy_anon_asked"];
/// Boots of one kernel differ by less.
const MORE: f64 = 1.5;

/// What a semantics came to, a value a boot.
#[derive(Default)]
pub struct Outcome {
    faults: Vec<i64>,
    /// From files: what was swapped in is left out.
    pages: Vec<i64>,
    asked: Vec<i64>,
    pub decided: Vec<i64>,
    otherwise: Vec<i64>,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Differs {
    /// No decision does.
    Never,
    /// Decisions do, what came of them does not.
    InDecisions,
    /// By this factor.
    InResult(f64),
}

pub struct Line<'a> {
    plan: &'a str,
    lru: Lru,
    pub measure: &'static str,
    pub today: Outcome,
    pub others: Vec<Option<Outcome>>,
}

pub fn lines<'a>(groups: &'a [Group]) -> Vec<Line<'a>> {
    groups.iter().filter_map(line).collect()
}

fn line<'a>(group: &'a Group) -> Option<Line<'a>> {
    let readers = || group.cases().into_iter().find(|c| c == "readers");
    let case = rounds_case(group).or_else(readers)?;
    let today: Vec<String> = group.arms().into_iter().filter(|a| heeds(a)).collect();
    let of = |arms: &[String]| {
        let outcome = Outcome::of(group, &case, arms);
        (!outcome.pages.is_empty()).then_some(outcome)
    };
    let today = of(&today)?;
    // Files that are only read() do not fault.
    let faults = today.faults.iter().any(|n| *n > 0);
    Some(Line {
        plan: group.plan,
        lru: group.lru(),
        measure: if faults { measure(group) } else { "read_pages" },
        today,
        others: OTHERS.map(|(arm, _)| of(&[arm.to_string()])).into(),
    })
}

impl Outcome {
    fn of(group: &Group, case: &str, arms: &[String]) -> Outcome {
        let mut all = Outcome::default();
        for arm in arms {
            let sums = |metric: &str| group.sums(arm, case, metric);
            let added = |metrics: &[&str]| {
                let each: Vec<Vec<i64>> = metrics.iter().map(|m| sums(m)).collect();
                let boots = each.iter().map(Vec::len).min().unwrap_or(0);
                (0..boots)
                    .map(|b| each.iter().map(|v| v[b]).sum())
                    .collect::<Vec<i64>>()
            };
            let swapped = sums("swapin_pages").into_iter().chain(std::iter::repeat(0));
            let read = sums("read_pages").into_iter().zip(swapped);
            all.pages.extend(read.map(|(read, swapped)| read - swapped));
            all.faults.extend(sums("major_faults"));
            all.asked.extend(added(&ASKED));
            all.decided.extend(added(&DECIDED));
            all.otherwise.extend(added(&OTHERWISE));
        }
        all
    }

    pub fn measured(&self, measure: &str) -> &[i64] {
        match measure {
            "read_pages" => &self.pages,
            _ => &self.faults,
        }
    }

    /// A few decisions more or less come with the clock; none at all do not.
    fn counted(&self) -> bool {
        !self.otherwise.is_empty()
    }
}

impl Line<'_> {
    pub fn asked(&self) -> bool {
        self.today.asked.iter().any(|n| *n > 0)
    }

    pub fn differs(&self, other: &Outcome) -> Differs {
        if other.counted() && other.otherwise.iter().all(|n| *n == 0) {
            return Differs::Never;
        }
        let ends = |o: &Outcome| {
            let values = o.measured(self.measure);
            let least = values.iter().min().copied().unwrap_or(0) as f64;
            (
                least.max(1.0),
                values.iter().max().copied().unwrap_or(0).max(1) as f64,
            )
        };
        let ((low, high), (least, most)) = (ends(&self.today), ends(other));
        match () {
            _ if least > MORE * high => Differs::InResult(least / high),
            _ if most * MORE < low => Differs::InResult(most / low),
            _ => Differs::InDecisions,
        }
    }

    fn others(&self) -> impl Iterator<Item = (&'static str, &Outcome)> {
        let names = OTHERS.iter().map(|(_, name)| *name);
        names
            .zip(&self.others)
            .filter_map(|(name, o)| Some((name, o.as_ref()?)))
    }

    fn verdict(&self) -> String {
        if !self.asked() {
            return "not asked".into();
        }
        let seen: Vec<_> = self.others().map(|(n, o)| (n, self.differs(o))).collect();
        let results: Vec<String> = seen
            .iter()
            .filter_map(|(name, d)| match d {
                Differs::InResult(factor) => Some(format!("{name} ×{factor:.1}")),
                _ => None,
            })
            .collect();
        match () {
            _ if seen.is_empty() => "nothing to compare".into(),
            _ if !results.is_empty() => results.join(", "),
            _ if seen.iter().all(|(_, d)| *d == Differs::Never) => "no decision differs".into(),
            _ => "decisions differ, the result does not".into(),
        }
    }

    /// Without what all have in common.
    pub fn name(&self) -> &str {
        self.plan.strip_prefix("thrash-").unwrap_or(self.plan)
    }
}

fn cell(outcome: &Outcome) -> String {
    format!(
        "{} / {}",
        range(&outcome.faults, thousands),
        range(&outcome.pages, thousands)
    )
}

pub fn section(out: &mut Section, lines: &[Line]) {
    let compared = lines
        .iter()
        .any(|l| l.others().next().is_some() || !l.asked());
    if !compared {
        return;
    }
    out.text("### The policy's reach");
    out.text(
        "A line a workload: major faults / pages read from files, under four semantics of the refault comparison. `2019`: a \
         refault of a file page sets the ratio to 0, so that the inactive list is low if any page is active, and refaults of \
         anonymous pages are not looked at. `today`: a refault of either kind is enough. `blind`: only the choice of lists does \
         not look. `removed`: nothing looks. In brackets: decisions made otherwise than today's comparison would have in the \
         same place; where there is none, what still differs is the clock's doing, as statistics are flushed by time.",
    );
    let mut head = vec!["workload", "LRU", "refaults decided, today", "today"];
    head.extend(OTHERS.map(|(_, name)| name));
    head.push("differs");
    let mut table = Table::new(&head);
    for line in lines {
        let decided = match line.asked() {
            true => format!(
                "{} of {}",
                range(&line.today.decided, thousands),
                range(&line.today.asked, thousands)
            ),
            false => "not asked".into(),
        };
        let mut row = vec![
            line.plan.to_string(),
            line.lru.to_string(),
            decided,
            cell(&line.today),
        ];
        row.extend(line.others.iter().map(|o| match o {
            None => "–".into(),
            Some(o) => format!("{} ({})", cell(o), range(&o.otherwise, thousands)),
        }));
        row.push(line.verdict());
        table.row(row);
    }
    out.table(table);
}

/// Which semantics anything can be told by.
pub fn claims(out: &mut Section, lines: &[Line]) {
    for (i, (arm, name)) in OTHERS.into_iter().enumerate() {
        let tried: Vec<(&Line, Differs)> = lines
            .iter()
            .filter_map(|l| Some((l, l.differs(l.others[i].as_ref()?))))
            .collect();
        if tried.is_empty() {
            continue;
        }
        let of = |keep: fn(&Differs) -> bool| -> Vec<String> {
            tried
                .iter()
                .filter(|(_, d)| keep(d))
                .map(|(l, d)| match d {
                    Differs::InResult(factor) => format!("{} ×{factor:.1}", l.plan),
                    _ => l.plan.to_string(),
                })
                .collect()
        };
        let result = of(|d| matches!(d, Differs::InResult(_)));
        let decisions = of(|d| *d == Differs::InDecisions);
        let never = of(|d| *d == Differs::Never);
        let mut ours = Vec::new();
        for (what, plans) in [
            ("result differs", &result),
            ("decisions alone differ", &decisions),
            ("no decision differs", &never),
        ] {
            if !plans.is_empty() {
                ours.push(format!("{what}: {}", join(plans)));
            }
        }
        let verdict = match (&result[..], &decisions[..]) {
            ([], []) => "the same policy here".to_string(),
            ([], _) => "the same result here".to_string(),
            (some, _) => format!("differs in {} of {}", some.len(), tried.len()),
        };
        out.claim(
            &format!("today's comparison against {name} ({arm})"),
            "–",
            ours.join("; "),
            &verdict,
        );
    }
    let silent: Vec<&str> = lines
        .iter()
        .filter(|l| l.lru == Lru::Mglru)
        .map(|l| l.plan)
        .collect();
    let asked = |l: &&Line| l.lru == Lru::Mglru && l.asked();
    if !silent.is_empty() {
        let verdict = match lines.iter().find(asked) {
            None => "never: the policy has no reach",
            Some(_) => "asked",
        };
        out.claim("policy asked, MGLRU", "–", join(&silent), verdict);
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    fn outcome(faults: &[i64], decided: i64, otherwise: i64) -> Outcome {
        let each = |n: i64| vec![n; faults.len()];
        Outcome {
            faults: faults.into(),
            pages: faults.iter().map(|f| f * 2).collect(),
            asked: each(500),
            decided: each(decided),
            otherwise: each(otherwise),
        }
    }

    /// The one whose others are `[2019, blind, removed]`.
    pub fn made_up(plan: &str, lru: Lru, others: [Option<(i64, i64)>; 3]) -> Line<'_> {
        let other = |o: (i64, i64)| outcome(&[o.0], 3, o.1);
        let mut today = outcome(&[100, 110], 40, 0);
        if lru == Lru::Mglru {
            today.asked = vec![0, 0];
        }
        Line {
            plan,
            lru,
            measure: "major_faults",
            today,
            others: others.map(|o| o.map(other)).into(),
        }
    }

    #[test]
    fn what_differs_is_told_from_what_the_clock_does() {
        for (others, want) in [
            // Far off, and yet no decision differed.
            ([Some((400, 0)), None, None], "no decision differs"),
            (
                [Some((105, 0)), Some((160, 9)), None],
                "decisions differ, the result does not",
            ),
            (
                [None, Some((330, 9)), Some((50, 1))],
                "blind ×3.0, removed ×0.5",
            ),
            ([None, None, None], "nothing to compare"),
        ] {
            let line = made_up("thrash-a", Lru::Classic, others);
            assert_eq!(line.verdict(), want);
        }
        let silent = made_up("thrash-a-mglru", Lru::Mglru, [None, None, None]);
        assert_eq!(silent.verdict(), "not asked");
    }

    #[test]
    fn a_line_a_workload_and_a_claim_a_semantics() {
        let others = [Some((104, 0)), Some((330, 7)), Some((120, 2))];
        let lines = [
            made_up("thrash-a", Lru::Classic, others),
            made_up("thrash-a-mglru", Lru::Mglru, [None, None, None]),
        ];
        let mut out = Section::new("thrash", "x");
        section(&mut out, &lines);
        claims(&mut out, &lines);
        let Some(Block::Table(table)) = out.blocks.last() else {
            panic!("no table");
        };
        assert_eq!(
            table.rows[0][2..],
            [
                "40 of 500",
                "100–110 / 200–220",
                "104 / 208 (0)",
                "330 / 660 (7)",
                "120 / 240 (2)",
                "blind ×3.0"
            ]
        );
        assert_eq!(table.rows[1][7], "not asked");
        let verdicts: Vec<&str> = out.claims.iter().map(|c| c.verdict.as_str()).collect();
        assert_eq!(
            verdicts,
            [
                "the same policy here",
                "differs in 1 of 1",
                "the same result here",
                "never: the policy has no reach"
            ]
        );
    }
}
