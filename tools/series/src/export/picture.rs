// SPDX-License-Identifier: GPL-2.0
//! The picture of the README: drawn by Graphviz from the text of the one in the series' documentation page. The SVG
//! carries the hash of that text, as Graphviz draws differently from release to release.

use crate::files::{hex, write_whole};
use crate::step::{Ctx, capture, say};
use crate::toolchain;
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::fs;
use std::process::Command;

const PAGE: &str = "Documentation/mm/vmscan-rust.rst";
const PICTURE: &str = "docs/design.svg";
const DIRECTIVE: &str = ".. kernel-render:: DOT";

/// What is wrong with the picture, if anything is.
pub fn stale(ctx: &Ctx) -> Result<Option<String>> {
    let Some(dot) = source(ctx)? else {
        return Ok(None);
    };
    let drawn = fs::read_to_string(ctx.root.join(PICTURE)).unwrap_or_default();
    Ok((!drawn.contains(&mark(&dot))).then(|| format!("{PICTURE} is not the picture of {PAGE}")))
}

pub fn draw(ctx: &Ctx) -> Result<()> {
    if stale(ctx)?.is_none() {
        return Ok(());
    }
    let dot = source(ctx)?.context("stale, so it has a source")?;
    let Some(program) = toolchain::which("dot") else {
        bail!("{PICTURE} has to be drawn anew, by Graphviz: install graphviz, then `make export`");
    };
    let temp = ctx.temp("picture")?;
    let text = temp.path().join("design.dot");
    fs::write(&text, &dot).with_context(|| format!("cannot write {}", text.display()))?;
    let svg = capture(Command::new(program).arg("-Tsvg").arg(&text))?;
    let svg = svg.replacen("<svg", &format!("<!-- {} -->\n<svg", mark(&dot)), 1);
    let place = ctx.root.join(PICTURE);
    let folder = place.with_file_name("");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    write_whole(&place, svg.as_bytes())?;
    say(format!("drew {PICTURE}"));
    Ok(())
}

fn source(ctx: &Ctx) -> Result<Option<String>> {
    let page = ctx.root.join(PAGE);
    match fs::read_to_string(&page) {
        Ok(text) => Ok(dot(&text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).with_context(|| format!("cannot read {}", page.display())),
    }
}

fn mark(dot: &str) -> String {
    format!(
        "The kernel-render block of {PAGE}, {}",
        hex(&Sha256::digest(dot))
    )
}

/// What is indented below the directive, after its options.
fn dot(page: &str) -> Option<String> {
    let (_, rest) = page.split_once(&format!("\n{DIRECTIVE}\n"))?;
    let block = rest
        .lines()
        .skip_while(|l| l.trim_start().starts_with(':'))
        .take_while(|l| l.is_empty() || l.starts_with([' ', '\t']));
    let text: String = block
        .map(|l| format!("{}\n", l.trim()))
        .skip_while(|l| l == "\n")
        .collect();
    Some(text.trim_end().to_string() + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Who\n\n.. kernel-render:: DOT\n   :alt: who calls whom\n   :caption: x\n\n   digraph \"a\" {\n\
                        \n     a -> b;\n   }\n\nMore.\n";

    fn ctx(root: &std::path::Path) -> Ctx {
        Ctx {
            root: root.into(),
            build: root.join("build"),
            cache: root.join("cache"),
            jobs: 1,
        }
    }

    #[test]
    fn the_block_is_found() {
        assert_eq!(dot(TEXT).unwrap(), "digraph \"a\" {\n\na -> b;\n}\n");
        assert_eq!(dot("Who\n"), None);
    }

    #[test]
    fn an_edited_block_makes_the_picture_stale() {
        let temp = tempfile::tempdir().unwrap();
        let ctx = ctx(temp.path());
        assert_eq!(stale(&ctx).unwrap(), None, "no page, no picture");
        let page = temp.path().join(PAGE);
        fs::create_dir_all(page.with_file_name("")).unwrap();
        fs::write(&page, TEXT).unwrap();
        assert!(stale(&ctx).unwrap().is_some());
        fs::create_dir_all(temp.path().join("docs")).unwrap();
        fs::write(temp.path().join(PICTURE), mark(&dot(TEXT).unwrap())).unwrap();
        assert_eq!(stale(&ctx).unwrap(), None);
        fs::write(&page, TEXT.replace("a -> b", "b -> a")).unwrap();
        assert!(stale(&ctx).unwrap().is_some());
    }
}
