// SPDX-License-Identifier: GPL-2.0
//! Rows of the tables in lab/: cells between tabs, comments, and a place to point at when one is wrong.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;

/// One row and where it stands.
pub struct Row<const N: usize> {
    pub cells: [String; N],
    pub at: String,
}

pub fn read<const N: usize>(root: &Path, name: &str) -> Result<Vec<Row<N>>> {
    let path = root.join(name);
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(name, &text)
}

fn parse<const N: usize>(name: &str, text: &str) -> Result<Vec<Row<N>>> {
    let mut rows = Vec::new();
    for (i, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let at = format!("{name}:{}", i + 1);
        let cells: Vec<String> = line.split('\t').map(|c| c.trim().to_string()).collect();
        let Ok(cells) = <[String; N]>::try_from(cells) else {
            bail!("{at}: want {N} cells with a tab between them, got `{line}`");
        };
        rows.push(Row { cells, at });
    }
    Ok(rows)
}

/// The words of a cell that holds a list; `-` holds none.
pub fn words(cell: &str, separator: char) -> Vec<String> {
    cell.split(separator)
        .map(str::trim)
        .filter(|w| !w.is_empty() && *w != "-")
        .map(str::to_string)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows() {
        let rows = parse::<2>("lab/x.tsv", "# c\n\na\tb c\n").unwrap();
        assert_eq!(rows[0].cells, ["a", "b c"]);
        assert_eq!(rows[0].at, "lab/x.tsv:3");
        let e = parse::<3>("lab/x.tsv", "a\tb\n").err().unwrap().to_string();
        assert!(e.starts_with("lab/x.tsv:1: want 3 cells"), "{e}");
    }

    #[test]
    fn lists() {
        assert_eq!(words("a, b", ','), ["a", "b"]);
        assert!(words("-", ',').is_empty());
    }
}
