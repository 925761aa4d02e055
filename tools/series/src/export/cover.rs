// SPDX-License-Identifier: GPL-2.0
//! The cover letter: the author's text is kept, what git knows better is renewed.

use anyhow::{Context, Result, bail};
use regex::Regex;

/// Renews the count, the shortlog and the diffstat.
pub fn cover(name: &str, old: Option<&str>, fresh: &str) -> Result<String> {
    let mark = "*** BLURB HERE ***\n\n";
    let at = fresh
        .find(mark)
        .context("git's cover letter has no place for the text")?;
    let summary = fresh[at + mark.len()..].trim_end();
    let Some(old) = old else {
        return Ok(format!("{}\n", fresh.trim_end()));
    };
    let first_line = fresh.lines().next().unwrap_or("");
    let count = Regex::new(r"\[RFC PATCH \d+/\d+\]").expect("a fixed pattern");
    let count_now = count
        .find(fresh)
        .context("git's cover letter has no number")?
        .as_str();

    let (head, body) = old
        .split_once("\n\n")
        .with_context(|| format!("{name}: no empty line after its head"))?;
    let mut head: Vec<String> = head.lines().map(str::to_string).collect();
    if head.first().is_some_and(|l| l.starts_with("From ")) {
        head[0] = first_line.to_string();
    } else {
        head.insert(0, first_line.to_string());
    }
    let subject = head.iter_mut().find(|l| l.starts_with("Subject:"));
    let subject = subject.with_context(|| format!("{name}: no Subject line"))?;
    if !count.is_match(subject) {
        bail!("{name}: its Subject must start with [RFC PATCH 0/n]");
    }
    *subject = count.replace(subject, count_now).into_owned();

    let (text, rest) = around_summary(body);
    let mut out = format!(
        "{}\n\n{}\n\n{summary}\n",
        head.join("\n"),
        text.trim_matches('\n')
    );
    if !rest.trim().is_empty() {
        out += &format!("\n{}\n", rest.trim());
    }
    Ok(out)
}

/// Splits the body into what is before and after the shortlog and diffstat.
fn around_summary(body: &str) -> (String, String) {
    let lines: Vec<&str> = body.lines().collect();
    let total = Regex::new(r"^ \d+ files? changed").expect("a fixed pattern");
    let heading = Regex::new(r"^\S.* \(\d+\):$").expect("a fixed pattern");
    let join = |l: &[&str]| l.join("\n");
    let Some(sum) = lines.iter().rposition(|l| total.is_match(l)) else {
        // Not there yet: it goes before the trailers that name the base.
        let at = lines
            .iter()
            .position(|l| l.starts_with("base-commit:"))
            .unwrap_or(lines.len());
        return (join(&lines[..at]), join(&lines[at..]));
    };
    // Upwards: the diffstat, then blocks of `Name (n):` with their subjects. Anything else is the author's text.
    let before = |at: usize, fits: fn(&str) -> bool| {
        let above = lines[..at].iter().rev();
        at - above.take_while(|l| fits(l)).count()
    };
    let mut start = before(sum, |l| l.starts_with(' ') && l.contains(" | "));
    loop {
        let blank = before(start, str::is_empty);
        let subjects = before(blank, |l| l.starts_with("  "));
        if subjects == blank || subjects == 0 || !heading.is_match(lines[subjects - 1]) {
            break;
        }
        start = subjects - 1;
    }
    let mode = Regex::new(r"^ (create|delete) mode |^ mode change |^ rename |^ rewrite ")
        .expect("a fixed pattern");
    let below = lines[sum + 1..].iter().take_while(|l| mode.is_match(l));
    let end = sum + 1 + below.count();
    (join(&lines[..start]), join(&lines[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: &str = "From 0000 Mon Sep 17 00:00:00 2001\nFrom: x\nDate: d\n\
        Subject: [RFC PATCH 00/12] *** SUBJECT HERE ***\n\n*** BLURB HERE ***\n\n\
        Ann Author (2):\n  mm: one\n  mm: two\n\nBob B (1):\n  mm: three\n\n\
        \x20mm/vmscan.c | 10 ++++++++++\n mm/x.rs     |  2 ++\n 2 files changed, 12 insertions(+)\n\
        \x20create mode 100644 mm/x.rs\n\n";

    const OLD: &str = "From 0000 Mon Sep 17 00:00:00 2001\nFrom: Me <me@x>\nDate: then\n\
        Subject: [RFC PATCH 0/3] mm: vmscan: a long\n subject\n\nWhy (1):\nbecause.\n\n  indented end\n\n\
        Ann Author (1):\n  mm: old\n\n mm/vmscan.c | 1 +\n 1 file changed, 1 insertion(+)\n\n\
        base-commit: abc\n";

    #[test]
    fn cover_keeps_the_text_and_renews_the_rest() {
        let new = cover("c", Some(OLD), FRESH).unwrap();
        assert!(new.contains("Subject: [RFC PATCH 00/12] mm: vmscan: a long\n subject\n\nWhy (1):\nbecause.\n\n  indented end\n\nAnn Author (2):\n"), "{new}");
        assert!(new.contains("From: Me <me@x>\nDate: then\n"));
        assert!(!new.contains("mm: old"));
        assert!(
            new.ends_with(" create mode 100644 mm/x.rs\n\nbase-commit: abc\n"),
            "{new}"
        );
        assert_eq!(cover("c", Some(&new), FRESH).unwrap(), new);
    }

    #[test]
    fn cover_without_a_summary_gets_one_before_the_base() {
        let old = "From: Me\nSubject: [RFC PATCH 0/1] x\n\nText.\n\nbase-commit: abc\n";
        let new = cover("c", Some(old), FRESH).unwrap();
        assert!(new.starts_with("From 0000 Mon Sep 17 00:00:00 2001\nFrom: Me\n"));
        assert!(new.contains("Text.\n\nAnn Author (2):"));
        assert!(new.ends_with("\n\nbase-commit: abc\n"));
        assert_eq!(cover("c", Some(&new), FRESH).unwrap(), new);
    }
}
