// SPDX-License-Identifier: GPL-2.0
//! Reclaim must not panic: nothing that C can call in the series' Rust objects reaches a panic
//! function, in the object itself or in the kernel crate.

use super::rust;
use crate::step::{Ctx, output};
use crate::toolchain::{Toolchain, clang::llvm_tool};
use crate::tree::Tree;
use anyhow::{Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Function to the symbols that its code refers to.
type Calls = BTreeMap<String, BTreeSet<String>>;

pub fn none_reached(ctx: &Ctx, tools: &Toolchain, tree: &Tree, build_dir: &Path) -> Result<()> {
    let objdump = llvm_tool(&tools.llvm, "llvm-objdump");
    let mut all = disassemble(&objdump, &build_dir.join("rust/kernel.o"))?;
    let mut roots = BTreeSet::new();
    for object in rust::objects(ctx, tree)? {
        let calls = disassemble(&objdump, &build_dir.join(&object))?;
        let exported: BTreeSet<_> = calls.keys().filter(|f| exported(f)).cloned().collect();
        if exported.is_empty() {
            bail!("{object} exports nothing to C, so there is nothing to follow");
        }
        roots.extend(exported);
        all.extend(calls);
    }
    let found = reached(&all, &roots);
    if !found.is_empty() {
        bail!("{}", found.join("\n"));
    }
    Ok(())
}

/// `#[export]` keeps the name; Rust's own symbols start with `_R`, the compiler's with a dot or `__`.
fn exported(function: &str) -> bool {
    !function.starts_with(['_', '.'])
}

fn disassemble(objdump: &str, object: &Path) -> Result<Calls> {
    let mut cmd = Command::new(objdump);
    cmd.args(["-d", "-r", "--no-show-raw-insn"]).arg(object);
    let out = output(&mut cmd)?;
    if !out.status.success() {
        bail!(
            "{objdump} failed on {}: {}",
            object.display(),
            String::from_utf8_lossy(&out.stderr)
        );
    }
    let calls = parse(&String::from_utf8_lossy(&out.stdout));
    if calls.is_empty() {
        bail!("{objdump} found no code in {}", object.display());
    }
    Ok(calls)
}

/// Reads `address <function>:` and the relocations below it, `address: R_TYPE symbol+offset`.
fn parse(text: &str) -> Calls {
    let mut calls = Calls::new();
    let mut function = None;
    for line in text.lines() {
        if let Some(name) = line.strip_suffix(">:").and_then(|l| l.split_once(" <")) {
            calls.entry(name.1.to_string()).or_default();
            function = Some(name.1.to_string());
        } else if let (Some(f), Some((_, target))) = (&function, line.split_once(":  R_")) {
            let symbol = target.split_whitespace().nth(1).unwrap_or_default();
            let symbol = symbol.split(['+', '-']).next().unwrap_or_default();
            calls.entry(f.clone()).or_default().insert(symbol.into());
        }
    }
    calls
}

/// The ways from a root to a panic function, as `root -> ... -> panic`.
fn reached(calls: &Calls, roots: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen = roots.clone();
    let mut todo: Vec<Vec<&String>> = roots.iter().map(|r| vec![r]).collect();
    while let Some(way) = todo.pop() {
        let Some(targets) = way.last().and_then(|f| calls.get(*f)) else {
            continue;
        };
        for target in targets {
            let mut next = way.clone();
            next.push(target);
            if target.contains("panic") {
                found.push(
                    next.iter()
                        .map(|s| s.as_str())
                        .collect::<Vec<_>>()
                        .join(" -> "),
                );
            } else if seen.insert(target.clone()) {
                todo.push(next);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "\n0000000000000000 <decide>:\n       0:      \tendbr64\n       4:      \tcallq\t0x9\n\
\t\t0000000000000005:  R_X86_64_PLT32\t_Rhelper-0x4\n\n0000000000000010 <_Rhelper>:\n\
\t\t0000000000000011:  R_X86_64_PLT32\t_Rcore_panicking_panic-0x4\n\n\
0000000000000020 <_Rtests>:\n\t\t0000000000000021:  R_X86_64_PLT32\t_Rcore_panicking_panic-0x4\n";

    #[test]
    fn a_way_to_a_panic_is_named() {
        let calls = parse(LISTING);
        assert_eq!(calls.len(), 3);
        let roots: BTreeSet<_> = calls.keys().filter(|f| exported(f)).cloned().collect();
        assert_eq!(roots, BTreeSet::from(["decide".to_string()]));
        assert_eq!(
            reached(&calls, &roots),
            ["decide -> _Rhelper -> _Rcore_panicking_panic"]
        );
    }

    #[test]
    fn what_only_tests_reach_does_not_count() {
        let mut calls = parse(LISTING);
        calls.insert("_Rhelper".into(), BTreeSet::new());
        assert!(reached(&calls, &BTreeSet::from(["decide".to_string()])).is_empty());
    }
}
