//! Runs `tests/filetests/kernel/*.fw`: kernels with inputs and expected outputs, through the Kernel IR interpreter.
//!
//! After the kernels a file holds directives, each in a comment line of its own, which are carried out in order:
//!
//! | directive | meaning |
//! |---|---|
//! | `set x = 1.0 0.5*3 0..4` | elements of buffer `x`; `v*n` repeats, `a..b` counts |
//! | `same y = x` | parameter `y` uses the memory of `x` |
//! | `run @k s=3 rows=1..3` | runs a kernel on the buffers of its parameters' names; missing buffers are made of zeros |
//! | `check x = …` | the exact elements of a buffer; NaNs are alike |
//! | `fails @k s=3: message` | the run is refused with a message that contains this |
//!
//! Every kernel must print and parse back, and must give the same elements expanded for each target; where it calls
//! functions that are not exact, that comparison allows for their class. `UPDATE_EXPECT=1` rewrites check lines.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use fusewright_abi::DType;
use fusewright_codegen::kernel::expand::{Column, expand};
use fusewright_codegen::kernel::interp::{Buffer, bits_at, put_bits, run};
use fusewright_codegen::kernel::{InstOp, Kernel, Order, parse_kernels, verify};
use fusewright_graph::scalar::Accuracy;
use fusewright_graph::{dim, num};

#[test]
fn kernel_filetests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/filetests/kernel");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the folder is readable")
        .map(|entry| entry.expect("the folder is readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "fw"))
        .collect();
    files.sort();
    assert!(files.len() >= 14, "only {} files in {}", files.len(), folder.display());
    let failures: Vec<String> = files.iter().filter_map(|path| check_file(path).err()).collect();
    assert!(failures.is_empty(), "{}\n(UPDATE_EXPECT=1 rewrites check lines)", failures.join("\n\n"));
}

fn check_file(path: &Path) -> Result<(), String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).map_err(|e| format!("{name}: {e}"))?;
    let body = text.strip_prefix("test kernel\n").ok_or_else(|| format!("{name}: starts with `test kernel`"))?;
    let kernels = parse_kernels(body).map_err(|e| format!("{name}: {e}"))?;
    for kernel in &kernels {
        let printed = kernel.to_string();
        verify(kernel).map_err(|e| format!("{name}: {e}"))?;
        if printed.parse::<Kernel>().as_ref() != Ok(kernel) {
            return Err(format!("{name}: does not read back:\n{printed}"));
        }
    }
    let mut session = Session { kernels: &kernels, buffers: BTreeMap::new(), same: BTreeMap::new(), checks: 0 };
    let bless = std::env::var_os("UPDATE_EXPECT").is_some_and(|v| v == "1");
    let (mut blessed, mut failures) = (String::new(), String::new());
    for (i, text_line) in text.lines().enumerate() {
        let mut line = text_line.to_owned();
        if let Some(directive) = text_line.strip_prefix("; ") {
            match session.directive(directive) {
                Ok(None) => {}
                Ok(Some(actual)) if bless => line = format!("; {}", actual.trim_end()),
                Ok(Some(actual)) => {
                    let _ = writeln!(failures, "{name}:{}:\n  expected {directive}\n  actual   {actual}", i + 1);
                }
                Err(message) => {
                    let _ = writeln!(failures, "{name}:{}: {message}", i + 1);
                }
            }
        }
        let _ = writeln!(blessed, "{line}");
    }
    if session.checks == 0 {
        let _ = writeln!(failures, "{name}: nothing is checked");
    }
    if bless && blessed != text {
        std::fs::write(path, blessed).map_err(|e| format!("{name}: {e}"))?;
    }
    if failures.is_empty() { Ok(()) } else { Err(failures) }
}

/// Elements in bytes.
#[derive(Clone)]
struct Stored {
    dtype: DType,
    bytes: Vec<u8>,
    elements: usize,
}

impl Stored {
    fn codes(&self) -> Vec<u64> {
        (0..self.elements).map(|i| bits_at(self.dtype, &self.bytes, i).expect("in range")).collect()
    }
}

struct Session<'a> {
    kernels: &'a [Kernel],
    buffers: BTreeMap<String, Stored>,
    same: BTreeMap<String, String>,
    checks: usize,
}

/// Arguments of a run.
struct Call<'a> {
    kernel: &'a Kernel,
    dims: BTreeMap<String, i64>,
    rows: Option<std::ops::Range<i64>>,
}

impl<'a> Session<'a> {
    /// Carries out a directive; a check that fails gives the line as it should be. Other comments are left alone.
    fn directive(&mut self, text: &str) -> Result<Option<String>, String> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            "set" => self.set(rest).map(|()| None),
            "same" => {
                let (param, memory) = rest.split_once('=').ok_or("same A = B")?;
                self.same.insert(param.trim().to_owned(), memory.trim().to_owned());
                Ok(None)
            }
            "run" => self.run(rest).map(|()| None),
            "fails" => self.fails(rest).map(|()| None),
            "check" => self.check(rest),
            _ => Ok(None),
        }
    }

    fn dtype(&self, buffer: &str) -> Result<DType, String> {
        let param = self.kernels.iter().flat_map(|k| &k.params).find(|p| p.name == buffer);
        param.map(|p| p.dtype).ok_or_else(|| format!("no parameter is called `{buffer}`"))
    }

    fn set(&mut self, text: &str) -> Result<(), String> {
        let (name, values) = text.split_once('=').ok_or("set NAME = values")?;
        let dtype = self.dtype(name.trim())?;
        let codes = parse_values(dtype, values)?;
        let mut bytes = vec![0; dtype.bytes_for(codes.len())];
        codes.iter().enumerate().for_each(|(i, &code)| assert!(put_bits(dtype, &mut bytes, i, code)));
        self.buffers.insert(name.trim().to_owned(), Stored { dtype, bytes, elements: codes.len() });
        Ok(())
    }

    fn check(&mut self, text: &str) -> Result<Option<String>, String> {
        self.checks += 1;
        let (name, values) = text.split_once('=').ok_or("check NAME = values")?;
        let name = name.trim();
        let stored = self.buffers.get(name).ok_or_else(|| format!("there is no buffer `{name}`"))?;
        let actual = stored.codes();
        let equal = parse_values(stored.dtype, values).is_ok_and(|expected| same(stored.dtype, &expected, &actual));
        Ok((!equal).then(|| format!("check {name} = {}", print_values(stored.dtype, &actual))))
    }

    fn call(&self, text: &str) -> Result<Call<'a>, String> {
        let mut words = text.split_whitespace();
        let name = words.next().and_then(|w| w.strip_prefix('@')).ok_or("run @kernel dim=value …")?;
        let kernels = self.kernels;
        let kernel = kernels.iter().find(|k| k.name == name).ok_or_else(|| format!("no kernel `{name}`"))?;
        let mut call = Call { kernel, dims: BTreeMap::new(), rows: None };
        for word in words {
            let (name, value) = word.split_once('=').ok_or_else(|| format!("`{word}` is not NAME=VALUE"))?;
            let int = |text: &str| text.parse::<i64>().map_err(|e| format!("{word}: {e}"));
            match value.split_once("..") {
                Some((start, end)) if name == "rows" => call.rows = Some(int(start)?..int(end)?),
                _ => {
                    call.dims.insert(name.to_owned(), int(value)?);
                }
            }
        }
        Ok(call)
    }

    fn run(&mut self, text: &str) -> Result<(), String> {
        let call = self.call(text)?;
        let before = self.bind(&call)?;
        let mut buffers = before.clone();
        execute(call.kernel, &mut buffers, &call)?;
        for column in Column::ALL {
            // A function that a target cannot do at all is its backend's to refuse.
            let Ok(expanded) = expand(call.kernel, column) else { continue };
            let mut other = before.clone();
            execute(&expanded, &mut other, &call).map_err(|e| format!("expanded for {column:?}: {e}"))?;
            compare(call.kernel, &buffers, &other).map_err(|e| format!("expanded for {column:?}: {e}\n{expanded}"))?;
        }
        for (param, buffer) in call.kernel.params.iter().zip(buffers) {
            if let (Buffer::Bytes(bytes), Some(stored)) = (buffer, self.buffers.get_mut(&param.name)) {
                stored.bytes = bytes;
            }
        }
        Ok(())
    }

    fn fails(&mut self, text: &str) -> Result<(), String> {
        self.checks += 1;
        let (call, message) = text.split_once(": ").ok_or("fails @kernel …: message")?;
        let call = self.call(call)?;
        match self.bind(&call).and_then(|mut buffers| execute(call.kernel, &mut buffers, &call)) {
            Ok(()) => Err("the run was not refused".to_owned()),
            Err(error) if error.contains(message) => Ok(()),
            Err(error) => Err(format!("refused with: {error}")),
        }
    }

    /// The buffers of a kernel's parameters; missing ones are made.
    fn bind(&mut self, call: &Call<'_>) -> Result<Vec<Buffer>, String> {
        let params = &call.kernel.params;
        let eval = |d: &fusewright_graph::Dim| d.eval(&|n| call.dims.get(n).copied()).map_err(|e| e.to_string());
        let mut bound = Vec::with_capacity(params.len());
        for param in params {
            if let Some(memory) = self.same.get(&param.name) {
                let at = params.iter().position(|p| p.name == *memory).ok_or("`same` names another parameter")?;
                bound.push(Buffer::Same(at));
                continue;
            }
            let elements = usize::try_from(eval(&dim::product(&param.shape))?).map_err(|e| e.to_string())?;
            let bytes = vec![0; param.dtype.bytes_for(elements)];
            let made = Stored { dtype: param.dtype, bytes, elements };
            let stored = self.buffers.entry(param.name.clone()).or_insert(made);
            bound.push(Buffer::Bytes(stored.bytes.clone()));
        }
        Ok(bound)
    }
}

fn execute(kernel: &Kernel, buffers: &mut [Buffer], call: &Call<'_>) -> Result<(), String> {
    let rows = match &call.rows {
        Some(rows) => rows.clone(),
        None => 0..kernel.rows.eval(&|n| call.dims.get(n).copied()).map_err(|e| e.to_string())?,
    };
    run(kernel, buffers, &call.dims, rows).map_err(|e| e.to_string())
}

/// Equal elements, or close ones if the kernel calls functions that are not exact.
fn compare(kernel: &Kernel, direct: &[Buffer], expanded: &[Buffer]) -> Result<(), String> {
    let inexact = |op: &InstOp| match op {
        InstOp::Map(f) => f.spec().accuracy != Accuracy::Exact,
        InstOp::Reduce { order, .. } => *order == Order::Relaxed,
        _ => false,
    };
    if kernel.segments.iter().flat_map(|s| &s.insts).any(|inst| inexact(&inst.op)) {
        return Ok(());
    }
    for ((param, a), b) in kernel.params.iter().zip(direct).zip(expanded) {
        let codes = |buffer: &Buffer| -> Vec<u64> {
            let elements = buffer.bytes().len() * 8 / param.dtype.bits() as usize;
            (0..elements).map(|i| bits_at(param.dtype, buffer.bytes(), i).expect("in range")).collect()
        };
        let (a, b) = (codes(a), codes(b));
        if !same(param.dtype, &a, &b) {
            let (a, b) = (print_values(param.dtype, &a), print_values(param.dtype, &b));
            return Err(format!("%{} is {b}, not {a}", param.name));
        }
    }
    Ok(())
}

fn same(dtype: DType, a: &[u64], b: &[u64]) -> bool {
    let nan = |bits: u64| dtype.is_float() && num::decode(dtype, bits).is_nan();
    a.len() == b.len() && a.iter().zip(b).all(|(&x, &y)| x == y || nan(x) && nan(y))
}

fn parse_values(dtype: DType, text: &str) -> Result<Vec<u64>, String> {
    let mut codes = Vec::new();
    for word in text.split_whitespace() {
        if let Some((start, end)) = word.split_once("..") {
            let bounds = start.parse::<i64>().ok().zip(end.parse::<i64>().ok());
            let (start, end) = bounds.ok_or_else(|| format!("`{word}` is no range"))?;
            for v in start..end {
                codes.push(parse_value(dtype, &v.to_string())?);
            }
            continue;
        }
        let (value, count) = match word.split_once('*') {
            Some((value, count)) => (value, count.parse::<usize>().map_err(|e| format!("{word}: {e}"))?),
            None => (word, 1),
        };
        let code = parse_value(dtype, value)?;
        codes.extend(std::iter::repeat_n(code, count));
    }
    Ok(codes)
}

fn parse_value(dtype: DType, text: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is not a value of {dtype}");
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).map_err(|_| bad());
    }
    if dtype == DType::Bool {
        return text.parse::<bool>().map(u64::from).map_err(|_| bad());
    }
    if dtype.is_float() {
        let value = if dtype == DType::F32 { text.parse::<f32>().map(f64::from) } else { text.parse() };
        return value.map(|v| num::encode(dtype, v)).map_err(|_| bad());
    }
    let value = text.parse::<i128>().map_err(|_| bad())?;
    let (least, greatest) = num::int_range(dtype);
    if (least..=greatest).contains(&value) { Ok(num::encode_int(dtype, value as i64)) } else { Err(bad()) }
}

fn print_values(dtype: DType, codes: &[u64]) -> String {
    let runs = codes.chunk_by(|a, b| a == b);
    let run = |run: &[u64]| {
        let value = print_value(dtype, run[0]);
        if run.len() > 2 { format!("{value}*{}", run.len()) } else { vec![value; run.len()].join(" ") }
    };
    runs.map(run).collect::<Vec<_>>().join(" ")
}

fn print_value(dtype: DType, code: u64) -> String {
    match dtype {
        DType::Bool => (code != 0).to_string(),
        DType::F32 if !f32::from_bits(code as u32).is_nan() => format!("{:?}", f32::from_bits(code as u32)),
        _ if dtype.is_float() => {
            let value = num::decode(dtype, code);
            if value.is_nan() { "nan".to_owned() } else { format!("{value:?}") }
        }
        _ => num::int_value(dtype, num::decode_int(dtype, code)).to_string(),
    }
}
