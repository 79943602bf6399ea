//! Where a source can be broken: every synchronisation, alignment, count, stride, size and queue depth, one at a time.

/// A source with one thing in it broken.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// Name of the file.
    pub file: String,
    /// Line of it, from 1.
    pub line: usize,
    /// The function that the line belongs to, if it is one of a header.
    pub function: Option<String>,
    /// What was done, and to what.
    pub what: String,
    /// The text of the file.
    pub text: String,
}

impl Mutant {
    /// What no other mutant of the same sources is called.
    pub fn name(&self) -> String {
        format!("{}:{}: {}", self.file, self.line, self.what)
    }
}

/// All mutants of a file; those of a header know their functions.
pub fn of(file: &str, text: &str) -> Vec<Mutant> {
    let lines: Vec<&str> = text.lines().collect();
    let header = file.ends_with(".h");
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        for (what, broken) in changes(line) {
            let mut changed: Vec<&str> = lines.clone();
            changed[at] = &broken;
            found.push(Mutant {
                file: file.to_owned(),
                line: at + 1,
                function: header.then(|| function_of(&lines, at)).flatten(),
                what: format!("{what}: {}", line.trim()),
                text: changed.join("\n") + "\n",
            });
        }
    }
    found
}

/// What can be done to a line: a name of it, and the line that comes out.
fn changes(line: &str) -> Vec<(&'static str, String)> {
    let code = line.trim();
    let mut made = Vec::new();
    let whole = code.ends_with(';') && !code.starts_with("//");
    if !whole {
        return made;
    }
    let deletions = [
        (".EnQue(", "no EnQue"),
        (".FreeTensor(", "no FreeTensor"),
        ("PipeBarrier<PIPE_V>()", "no barrier"),
        ("SetFlag<", "no flag set"),
        ("WaitFlag<", "no wait for a flag"),
    ];
    for (_, what) in deletions.iter().filter(|(call, _)| code.contains(call) && !code.contains('=')) {
        made.push((*what, String::new()));
    }
    if code.contains(".DeQue<") {
        made.push(("AllocTensor for DeQue", line.replacen(".DeQue<", ".AllocTensor<", 1)));
    }
    if code.contains(".AllocTensor<") || code.contains(".template AllocTensor<") {
        made.push(("DeQue for AllocTensor", line.replacen("AllocTensor<", "DeQue<", 1)));
    }
    if code.contains("GetWithOffset<") {
        made.extend(last_number(line, |n| n + 16).map(|line| ("unaligned", line)));
    }
    if code.contains("InitBuffer(") {
        made.extend(last_number(line, |n| if n > 32 { n - 32 } else { 0 }).map(|line| ("short buffer", line)));
        made.extend(last_number(line, |n| n + (1 << 20)).map(|line| ("buffer beyond what there is", line)));
    }
    if code.contains("DEPTH = ") {
        made.extend(last_number(line, |n| n + 7).map(|line| ("deep queue", line)));
        made.extend(last_number(line, |n| n - 1).map(|line| ("shallow queue", line)));
    }
    // The strides from repeat to repeat of a single one say nothing.
    if is_instruction(code) && !code.contains(", 1, BinaryRepeatParams(") {
        made.extend(last_number(line, |n| n + 8).map(|line| ("more lanes", line)));
        made.extend(last_number(line, |n| n / 2).map(|line| ("fewer lanes", line)));
    }
    if code.contains("count * sizeof(T)") {
        made.push(("longer transfer", line.replacen("count * sizeof(T)", "(count + 1) * sizeof(T)", 1)));
        made.push(("shorter transfer", line.replacen("count * sizeof(T)", "(count - 1) * sizeof(T)", 1)));
    }
    if code.contains("RepeatParams") && code.contains("{1, 1, 1, ") {
        made.push(("other block stride", line.replacen("{1, 1, 1, ", "{1, 2, 1, ", 1)));
        made.push(("other repeat stride", line.replacen("{1, 1, 1, ", "{1, 1, 1, 1 + ", 1)));
    }
    made
}

/// Whether a line calls a vector instruction on counted lanes.
fn is_instruction(code: &str) -> bool {
    const NAMES: [&str; 22] = [
        "Add(",
        "Sub(",
        "Mul(",
        "Div(",
        "Max(",
        "Min(",
        "Adds(",
        "Muls(",
        "Maxs(",
        "Mins(",
        "Abs(",
        "Sqrt(",
        "Exp(",
        "Ln(",
        "Cast(",
        "Duplicate(",
        "Select(",
        "Compare(",
        "CompareScalar(",
        "Gather(",
        "Not(",
        "And(",
    ];
    NAMES.iter().any(|name| code.starts_with(name))
}

/// The line with its last decimal number, if an argument ends with it, replaced.
fn last_number(line: &str, by: impl Fn(i64) -> i64) -> Option<String> {
    let end = line.trim_end_matches([';', ')', ' ']).len();
    let digits = line[..end].bytes().rev().take_while(u8::is_ascii_digit).count();
    let start = end - digits;
    let before = line[..start].chars().next_back()?;
    let number: i64 = line[start..end].parse().ok()?;
    let new = by(number);
    let apart = !before.is_ascii_alphanumeric() && before != '_' && before != '.';
    (apart && new > 0 && new != number).then(|| format!("{}{new}{}", &line[..start], &line[end..]))
}

/// The name of the function whose body a line of a header is in: the last word before a parenthesis on a line that begins
/// a declaration.
fn function_of(lines: &[&str], at: usize) -> Option<String> {
    let declares = |line: &&&str| line.contains("__aicore__") && line.contains("inline") && line.contains('(');
    let line = lines[..=at].iter().rev().find(declares)?;
    let before = &line[..line.find('(')?];
    let name = before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
    Some(name.to_owned())
}
