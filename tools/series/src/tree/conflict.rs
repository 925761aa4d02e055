// SPDX-License-Identifier: GPL-2.0
//! Says which file and hunk of a patch does not apply, from what git says.

pub fn conflicts(said: &str, patch: &str) -> Vec<String> {
    let mut out = Vec::new();
    for line in said.lines().filter_map(|l| l.strip_prefix("error: ")) {
        let failed = line.strip_prefix("patch failed: ");
        if let Some((file, at)) = failed.and_then(|r| r.rsplit_once(':')) {
            out.push(match hunk(patch, file, at) {
                Some((n, header)) => format!("{file}: hunk {n} does not match: {header}"),
                None => format!("{file}: the hunk at line {at} does not match"),
            });
        } else if !line.ends_with(": patch does not apply") {
            out.push(line.to_string());
        }
    }
    if out.is_empty() {
        let lines = said.lines().filter(|l| !l.starts_with("hint:"));
        out.extend(lines.map(str::to_string));
    }
    out
}

/// The number and header of the hunk that starts at a line of the old file.
fn hunk<'a>(patch: &'a str, file: &str, at: &str) -> Option<(usize, &'a str)> {
    let start = format!("+++ b/{file}");
    let mut lines = patch.lines().skip_while(|l| *l != start);
    lines.next()?;
    let headers = lines
        .take_while(|l| !l.starts_with("diff --git "))
        .filter(|l| l.starts_with("@@ -"));
    (1..)
        .zip(headers)
        .find(|(_, l)| l["@@ -".len()..].split([',', ' ']).next() == Some(at))
}

#[cfg(test)]
mod tests {
    use super::super::patches::tests::PATCH;
    use super::*;

    #[test]
    fn conflict_names_file_and_hunk() {
        let said = "error: patch failed: mm/vmscan.c:90\nerror: mm/vmscan.c: patch does not apply\nhint: x\n\
                    error: mm/new.rs: already exists in index\n";
        assert_eq!(
            conflicts(said, PATCH),
            [
                "mm/vmscan.c: hunk 2 does not match: @@ -90,2 +90,3 @@ two()",
                "mm/new.rs: already exists in index"
            ]
        );
    }
}
