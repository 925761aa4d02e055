// SPDX-License-Identifier: GPL-2.0
//! The documents' tables, which are generated: between two markers in the README, below a heading in the cover letter.
//! The page in the kernel's documentation has one too; it is a part of the series, and is changed there.

use crate::report::{Report, write};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;

const BEGIN: &str = "<!-- lab:begin -->";
const END: &str = "<!-- lab:end -->";
const PAGE_BEGIN: &str = ".. lab:begin";
const PAGE_END: &str = ".. lab:end";
const HEADING: &str = "Measurements";

/// Rewrites what differs, or with `check` names it.
pub fn sync(
    report: &Report,
    readme: &Path,
    cover: &Path,
    follow_up: &Path,
    page: &Path,
    check: bool,
) -> Result<Vec<String>> {
    let mut said = Vec::new();
    let mut drifted = Vec::new();
    let mut jobs = vec![
        (
            readme,
            between_markers as fn(&str, &str) -> Result<String>,
            &report.tables,
        ),
        (cover, below_heading, &report.cover),
    ];
    if let Some(text) = report.follow_up.as_ref().filter(|_| follow_up.exists()) {
        jobs.push((follow_up, below_heading, text));
    }
    for (path, replace, text) in jobs {
        let old =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let new = replace(&old, text).with_context(|| path.display().to_string())?;
        if new == old {
            said.push(format!("{}: as generated", path.display()));
        } else if check {
            drifted.push(format!(
                "{}: {}",
                path.display(),
                first_difference(&old, &new)
            ));
        } else {
            write(path, &new)?;
            said.push(format!("{}: rewritten", path.display()));
        }
    }
    if !drifted.is_empty() {
        drifted.push("`lab-report docs` without --check writes them anew.".into());
    }
    match drift_of_page(report, page)? {
        None => said.push(format!("{}: as generated", page.display())),
        Some(todo) if check => drifted.push(todo),
        Some(todo) => said.push(todo),
    }
    if !drifted.is_empty() {
        bail!(
            "the figures of the documents are not those of the reference report:\n{}",
            drifted.join("\n")
        );
    }
    Ok(said)
}

/// What is to be done about it, if its block is not the report's, to the letter.
fn drift_of_page(report: &Report, page: &Path) -> Result<Option<String>> {
    let Some(policy) = &report.policy else {
        return Ok(None);
    };
    let text =
        fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let want = format!("{PAGE_BEGIN}\n\n{}\n\n{PAGE_END}\n", policy.trim_end());
    if text.contains(&want) {
        return Ok(None);
    }
    let has = text
        .split_once(PAGE_BEGIN)
        .and_then(|(_, rest)| Some(rest.split_once(PAGE_END)?.0));
    let why = match has {
        None => format!("no lines `{PAGE_BEGIN}` and `{PAGE_END}`"),
        Some(has) => {
            let has = format!("{PAGE_BEGIN}{has}{PAGE_END}\n");
            format!("in its block, {}", first_difference(&has, &want))
        }
    };
    Ok(Some(format!(
        "{}: {why}\nThe page is in the series: in build/linux, put what policy.rst of the reference report says between \
         `{PAGE_BEGIN}` and `{PAGE_END}`, with an empty line after the one and before the other; then git commit --fixup, \
         git rebase --autosquash and make export.",
        page.display()
    )))
}

fn between_markers(old: &str, text: &str) -> Result<String> {
    let both = old
        .split_once(BEGIN)
        .and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let Some((before, after)) = both else {
        bail!("no lines `{BEGIN}` and `{END}`: put both where the table belongs");
    };
    Ok(format!(
        "{before}{BEGIN}\n{}\n{END}{after}",
        text.trim_end()
    ))
}

/// Mail shows markers to its readers, so a heading it is: up to the next one.
fn below_heading(old: &str, text: &str) -> Result<String> {
    let lines: Vec<&str> = old.split_inclusive('\n').collect();
    let heading = |i: usize| {
        let rule = lines.get(i + 1).map_or("", |l| l.trim_end());
        !lines[i].trim().is_empty() && rule.len() > 2 && rule.bytes().all(|b| b == b'=')
    };
    let mut headings = (0..lines.len()).filter(|&i| heading(i));
    let Some(start) = headings.by_ref().find(|&i| lines[i].trim_end() == HEADING) else {
        bail!("no heading `{HEADING}` underlined with `=`: put one where the figures belong");
    };
    let Some(end) = headings.next() else {
        bail!("no heading after `{HEADING}`: the figures end where the next heading starts");
    };
    Ok(format!(
        "{}\n{}\n\n{}",
        lines[..start + 2].concat(),
        text.trim_end(),
        lines[end..].concat()
    ))
}

fn first_difference(old: &str, new: &str) -> String {
    let mut pairs = old.lines().zip(new.lines()).zip(1..);
    match pairs.find(|((o, n), _)| o != n) {
        Some(((o, n), line)) => format!("line {line} is `{o}`, generated is `{n}`"),
        None => format!(
            "{} lines, generated are {}",
            old.lines().count(),
            new.lines().count()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COVER: &str = "Subject: x\n\nDesign\n======\n\nText.\n\nMeasurements\n============\n\nold\n\nmore\n\nBase\n====\n\nmm-stable\n";

    #[test]
    fn the_readme_between_markers() {
        let old = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let new = between_markers(&old, "| t |\n").unwrap();
        assert_eq!(new, format!("a\n{BEGIN}\n| t |\n{END}\nb\n"));
        assert_eq!(between_markers(&new, "| t |\n").unwrap(), new);
        let e = between_markers("a\n", "t").unwrap_err().to_string();
        assert!(e.contains(BEGIN), "{e}");
    }

    #[test]
    fn the_cover_letter_below_its_heading() {
        let new = below_heading(COVER, "table\n").unwrap();
        assert!(
            new.contains("============\n\ntable\n\nBase\n====\n"),
            "{new}"
        );
        assert!(new.starts_with("Subject: x\n\nDesign\n======\n\nText.\n\nMeasurements\n"));
        assert!(!new.contains("old") && !new.contains("more"));
        assert_eq!(below_heading(&new, "table\n").unwrap(), new);
        for (bad, want) in [
            (
                COVER.replace("Measurements", "Results"),
                "no heading `Measurements`",
            ),
            (COVER.replace("Base\n====\n", ""), "no heading after"),
        ] {
            let e = below_heading(&bad, "t").unwrap_err().to_string();
            assert!(e.contains(want), "{e}");
        }
    }

    #[test]
    fn drift_is_named_and_repaired() {
        let dir = tempfile::tempdir().unwrap();
        let (readme, cover) = (dir.path().join("README.md"), dir.path().join("cover"));
        let (page, more) = (dir.path().join("page.rst"), dir.path().join("more"));
        fs::write(&readme, format!("{BEGIN}\n64\n{END}\n")).unwrap();
        fs::write(&cover, COVER).unwrap();
        fs::write(&more, COVER).unwrap();
        let report = Report {
            markdown: String::new(),
            html: String::new(),
            tables: "65\n".into(),
            cover: "figures\n".into(),
            follow_up: Some("more figures\n".into()),
            policy: None,
            plots: Default::default(),
        };
        let e = sync(&report, &readme, &cover, &more, &page, true)
            .unwrap_err()
            .to_string();
        assert!(
            e.contains("README.md: line 2 is `64`, generated is `65`"),
            "{e}"
        );
        assert!(
            e.contains("cover: line 11 is `old`, generated is `figures`"),
            "{e}"
        );
        assert!(
            e.contains("more: line 11 is `old`, generated is `more figures`"),
            "{e}"
        );
        sync(&report, &readme, &cover, &more, &page, false).unwrap();
        let said = sync(&report, &readme, &cover, &more, &page, true).unwrap();
        assert!(said.iter().all(|s| s.contains("as generated")));

        // Without a follow-up there is nothing to keep in step.
        fs::remove_file(&more).unwrap();
        sync(&report, &readme, &cover, &more, &page, true).unwrap();

        let report = Report {
            policy: Some("table\n".into()),
            ..report
        };
        for (text, want) in [
            ("a\n", "page.rst: no lines `.. lab:begin`"),
            (
                ".. lab:begin\n\nold\n\n.. lab:end\n",
                "line 3 is `old`, generated is `table`",
            ),
            (".. lab:begin\n\ntable\n\nmore\n\n.. lab:end\n", "`more`"),
        ] {
            fs::write(&page, text).unwrap();
            let all = |check| sync(&report, &readme, &cover, &more, &page, check);
            let e = all(true).unwrap_err().to_string();
            assert!(e.contains(want) && e.contains("--fixup"), "{e}");
            assert!(!e.contains("without --check"), "{e}");
            let said = all(false).unwrap().concat();
            assert!(said.contains(want), "{said}");
            assert_eq!(fs::read_to_string(&page).unwrap(), text);
        }
        fs::write(&page, "a\n.. lab:begin\n\ntable\n\n.. lab:end\nb\n").unwrap();
        sync(&report, &readme, &cover, &more, &page, true).unwrap();
    }
}
