// SPDX-License-Identifier: GPL-2.0
//! Numbers and tables as text: for Markdown, and for mail.

/// 72 columns, as the kernel's mail has.
pub const MAIL_COLUMNS: usize = 72;

pub fn thousands(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if value < 0 { format!("−{out}") } else { out }
}

/// A share as a signed percentage.
pub fn change(share: f64) -> String {
    let text = format!("{:.2}%", share.abs() * 100.0);
    match text.as_str() {
        "0.00%" => "0.00%".into(),
        _ if share < 0.0 => format!("−{text}"),
        _ => format!("+{text}"),
    }
}

/// 4 KiB pages as MiB.
pub fn mib(pages: i64) -> String {
    let text = format!("{:.1}", pages as f64 / 256.0);
    text.strip_suffix(".0").unwrap_or(&text).to_string()
}

/// One value that all boots agree on, or the range they span.
pub fn range(values: &[i64], show: impl Fn(i64) -> String) -> String {
    match (values.iter().min(), values.iter().max()) {
        (Some(&a), Some(&b)) if a == b => show(a),
        (Some(&a), Some(&b)) => format!("{}–{}", show(a), show(b)),
        _ => "–".into(),
    }
}

/// `a`, `a and b`, `a, b and c`.
pub fn join(words: &[impl AsRef<str>]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words[..] {
        [] => String::new(),
        [one] => one.into(),
        [ref all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

/// Mail is ASCII here, as the rest of the cover letter.
pub fn ascii(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '−' | '–' => out.push('-'),
            '→' => out.push_str("->"),
            '×' => out.push('x'),
            'µ' => out.push('u'),
            '±' => out.push_str("+-"),
            '…' => out.push_str("..."),
            '`' | '*' => {}
            c => out.push(c),
        }
    }
    out
}

/// A paragraph of mail.
pub fn wrap(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in ascii(text).split_whitespace() {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > MAIL_COLUMNS {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += width;
    }
    out.push('\n');
    out
}

/// The first column is words, the others are figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// All columns are words.
    words: bool,
}

impl Table {
    pub fn new(head: &[impl AsRef<str>]) -> Table {
        Table {
            head: head.iter().map(|h| h.as_ref().to_string()).collect(),
            rows: Vec::new(),
            words: false,
        }
    }

    pub fn of_words(head: &[impl AsRef<str>]) -> Table {
        Table {
            words: true,
            ..Table::new(head)
        }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.head.len());
        self.rows.push(cells);
    }

    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|c| c.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule: Vec<String> = (0..self.head.len())
            .map(|i| if i == 0 || self.words { "---" } else { "---:" }.to_string())
            .collect();
        let mut out = line(&self.head) + &line(&rule);
        for row in &self.rows {
            out += &line(row);
        }
        out
    }

    /// For mail; one that is too wide becomes a list, a row a paragraph.
    pub fn mail(&self) -> String {
        let lines: Vec<Vec<String>> = std::iter::once(&self.head)
            .chain(&self.rows)
            .map(|row| row.iter().map(|c| ascii(c)).collect())
            .collect();
        let widths: Vec<usize> = (0..self.head.len())
            .map(|i| lines.iter().map(|l| l[i].len()).max().unwrap_or(0))
            .collect();
        if 2 + widths.iter().map(|w| w + 2).sum::<usize>() - 2 > MAIL_COLUMNS {
            return self.list();
        }
        let mut out = String::new();
        for line in &lines {
            let mut text = format!("  {:<1$}", line[0], widths[0]);
            for (cell, width) in line.iter().zip(&widths).skip(1) {
                text += &format!("  {cell:>width$}");
            }
            out += text.trim_end();
            out.push('\n');
        }
        out
    }

    /// For where there is no room for all.
    pub fn without(&self, column: &str) -> Table {
        let keep = |row: &[String]| -> Vec<String> {
            let cells = self.head.iter().zip(row);
            let kept = cells.filter(|(head, _)| *head != column);
            kept.map(|(_, cell)| cell.clone()).collect()
        };
        Table {
            head: keep(&self.head),
            rows: self.rows.iter().map(|r| keep(r)).collect(),
            words: self.words,
        }
    }

    fn list(&self) -> String {
        let mut out = String::new();
        for row in &self.rows {
            let rest: Vec<String> = self
                .head
                .iter()
                .zip(row)
                .skip(1)
                .map(|(head, cell)| format!("{head} {cell}"))
                .collect();
            out += &wrap(&format!("{}: {}.", row[0], rest.join(", ")));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(thousands(2047), "2,047");
        assert_eq!(thousands(-1234567), "−1,234,567");
        assert_eq!(thousands(64), "64");
        assert_eq!(change(-0.1484), "−14.84%");
        assert_eq!(change(0.00001), "0.00%");
        assert_eq!(mib(16896), "66");
        assert_eq!(mib(16897), "66");
        assert_eq!(mib(384), "1.5");
        assert_eq!(range(&[2036, 2045], thousands), "2,036–2,045");
        assert_eq!(range(&[64, 64], thousands), "64");
        assert_eq!(range(&[], thousands), "–");
        assert_eq!(join(&["a", "b", "c"]), "a, b and c");
    }

    #[test]
    fn tables_of_mail_fit() {
        let mut table = Table::new(&["per 8 MiB", "base", "rust"]);
        table.row(vec!["IOVA links".into(), "2,047".into(), "64".into()]);
        assert_eq!(
            table.mail(),
            "  per 8 MiB    base  rust\n  IOVA links  2,047    64\n"
        );
        table.row(vec!["wide ".repeat(9), "wide ".repeat(9), "→".into()]);
        let list = table.mail();
        assert!(list.lines().all(|l| l.len() <= MAIL_COLUMNS), "{list}");
        assert!(
            list.starts_with("IOVA links: base 2,047, rust 64.\n"),
            "{list}"
        );
        assert!(list.is_ascii());
    }

    #[test]
    fn tables_of_markdown() {
        let mut table = Table::new(&["a|b", "c"]);
        table.row(vec!["1".into(), "2".into()]);
        assert_eq!(
            table.markdown(),
            "| a\\|b | c |\n| --- | ---: |\n| 1 | 2 |\n"
        );
    }
}
