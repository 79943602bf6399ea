//! Reading kernels. Types of results are inferred, so operands that do not fit are errors at the instruction.

use std::collections::BTreeMap;
use std::str::FromStr;

use fusewright_abi::DType;
use fusewright_graph::text::lexer::{Kind, Token};
use fusewright_graph::text::{Cursor, TextError, parse_dim, parse_shape};
use fusewright_graph::{Dim, Literal};

use super::print::ACCESS;
use crate::kernel::infer::infer;
use crate::kernel::{Claim, DimDecl, DimOrigin, Inst, Kernel, Param, ParamId, Segment, Val};

type Result<T> = std::result::Result<T, TextError>;

/// Reads every kernel of a text.
///
/// # Errors
/// The first place where the text is not in the form, or an instruction does not fit its operands.
pub fn parse_kernels(text: &str) -> Result<Vec<Kernel>> {
    let mut cursor = Cursor::new(text)?;
    let mut kernels = Vec::new();
    while !cursor.at_end() {
        kernels.push(parse_kernel(&mut cursor)?);
    }
    Ok(kernels)
}

impl FromStr for Kernel {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self> {
        let mut cursor = Cursor::new(text)?;
        let kernel = parse_kernel(&mut cursor)?;
        cursor.expect_end()?;
        Ok(kernel)
    }
}

/// Reads one kernel and leaves what follows.
///
/// # Errors
/// As [`parse_kernels`].
pub fn parse_kernel(cursor: &mut Cursor<'_>) -> Result<Kernel> {
    cursor.expect_word("kernel")?;
    let name = cursor.expect_kind(Kind::Global, "`@` and the kernel's name")?.content().into_owned();
    let declared = dim_decls(cursor)?;
    cursor.expect_word("rows")?;
    let rows = parse_dim(cursor)?;
    cursor.expect("{")?;
    let claims = claims(cursor)?;
    let (params, aliases) = param_decls(cursor)?;
    let mut kernel = Kernel { name, dims: Vec::new(), claims, params, rows, segments: Vec::new() };
    for (at, alias) in aliases {
        kernel.params[at].alias = Some(param_id(cursor, &kernel.params, &alias)?);
    }
    for (name, origin) in declared {
        let origin = match origin {
            Some((stride, param, axis)) => {
                let param = param_id(cursor, &kernel.params, &param)?;
                if stride { DimOrigin::Stride(param, axis) } else { DimOrigin::Extent(param, axis) }
            }
            None => DimOrigin::Symbol,
        };
        kernel.dims.push(DimDecl { name, origin });
    }
    while cursor.eat_word("segment") {
        let segment = segment(cursor, &kernel.params)?;
        kernel.segments.push(segment);
    }
    if !cursor.eat("}") {
        return Err(cursor.expected("`claim`, `param`, `segment` or `}`"));
    }
    Ok(kernel)
}

/// Name of a dim and, unless the caller gives it, whether it is a stride, of which parameter and axis.
type DimText<'a> = (String, Option<(bool, Token<'a>, usize)>);

fn dim_decls<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<DimText<'a>>> {
    cursor.expect("(")?;
    let mut dims = Vec::new();
    while !cursor.eat(")") {
        if !dims.is_empty() {
            cursor.expect(",")?;
        }
        let name = cursor.ident("the name of a dim")?.text.to_owned();
        if !cursor.eat("=") {
            dims.push((name, None));
            continue;
        }
        let stride = cursor.eat_word("stride");
        if !stride && !cursor.eat_word("extent") {
            return Err(cursor.expected("`extent` or `stride`"));
        }
        cursor.expect("(")?;
        let param = cursor.ident("the name of a parameter")?;
        cursor.expect(",")?;
        let axis = cursor.unsigned::<u32>()? as usize;
        cursor.expect(")")?;
        dims.push((name, Some((stride, param, axis))));
    }
    Ok(dims)
}

fn claims(cursor: &mut Cursor<'_>) -> Result<Vec<Claim>> {
    let mut claims = Vec::new();
    while cursor.eat_word("claim") {
        let least = parse_dim(cursor)?;
        cursor.expect("<=")?;
        claims.push(Claim { least, most: parse_dim(cursor)? });
    }
    Ok(claims)
}

/// Parameters, and the names of those that others alias.
type ParamTexts<'a> = (Vec<Param>, Vec<(usize, Token<'a>)>);

fn param_decls<'a>(cursor: &mut Cursor<'a>) -> Result<ParamTexts<'a>> {
    let (mut params, mut aliases) = (Vec::new(), Vec::new());
    while cursor.eat_word("param") {
        let name = cursor.expect_kind(Kind::Value, "`%` and the parameter's name")?.content().into_owned();
        cursor.expect(":")?;
        let dtype = dtype(cursor)?;
        let shape = parse_shape(cursor)?;
        let access = word(cursor, &ACCESS)?;
        let mut param = Param { name, dtype, shape, access, alias: None, donated: false, early: false };
        loop {
            if cursor.eat_word("early") {
                param.early = true;
            } else if cursor.eat_word("donated") {
                param.donated = true;
            } else if cursor.eat_word("alias") {
                cursor.expect("(")?;
                aliases.push((params.len(), cursor.expect_kind(Kind::Value, "`%` and a parameter's name")?));
                cursor.expect(")")?;
            } else {
                break;
            }
        }
        params.push(param);
    }
    Ok((params, aliases))
}

fn segment(cursor: &mut Cursor<'_>, params: &[Param]) -> Result<Segment> {
    let name = cursor.expect_kind(Kind::Global, "`@` and the segment's name")?.content().into_owned();
    cursor.expect_word("inner")?;
    let inner = parse_dim(cursor)?;
    cursor.expect("{")?;
    let mut reader = InstReader { cursor, params, names: BTreeMap::new() };
    let mut segment = Segment { name, inner, insts: Vec::new(), types: Vec::new() };
    while !reader.cursor.eat("}") {
        reader.inst(&mut segment)?;
    }
    Ok(segment)
}

/// Reads instructions of one segment.
pub(super) struct InstReader<'c, 'a> {
    pub(super) cursor: &'c mut Cursor<'a>,
    pub(super) params: &'c [Param],
    names: BTreeMap<String, Val>,
}

impl InstReader<'_, '_> {
    fn inst(&mut self, segment: &mut Segment) -> Result<()> {
        let mut names = Vec::new();
        while self.cursor.peek().kind == Kind::Value {
            names.push(self.cursor.take());
            if !self.cursor.eat(",") {
                break;
            }
        }
        if !names.is_empty() {
            self.cursor.expect("=")?;
        }
        let at = self.cursor.peek();
        let (op, args) = self.op()?;
        let types: Vec<_> = args.iter().map(|&v| segment.ty(v)).collect();
        let results = infer(&op, &types, self.params).map_err(|e| self.cursor.error_at(&at, e.to_string()))?;
        if results.len() != names.len() {
            let message = format!("`{}` has {} results, {} are named", op.name(), results.len(), names.len());
            return Err(self.cursor.error_at(&at, message));
        }
        let mut values = Vec::with_capacity(results.len());
        for (name, ty) in names.iter().zip(results) {
            let value = Val(segment.types.len() as u32);
            segment.types.push(ty);
            if self.names.insert(name.content().into_owned(), value).is_some() {
                return Err(self.cursor.error_at(name, format!("{} is defined twice", name.describe())));
            }
            values.push(value);
        }
        segment.insts.push(Inst { op, args, results: values });
        Ok(())
    }

    pub(super) fn value(&mut self) -> Result<Val> {
        let token = self.cursor.expect_kind(Kind::Value, "a value")?;
        let found = self.names.get(token.content().as_ref()).copied();
        found.ok_or_else(|| self.cursor.error_at(&token, format!("{} is not defined", token.describe())))
    }

    pub(super) fn values(&mut self) -> Result<Vec<Val>> {
        let mut values = vec![self.value()?];
        while self.cursor.eat(",") {
            values.push(self.value()?);
        }
        Ok(values)
    }

    pub(super) fn param(&mut self) -> Result<ParamId> {
        let name = self.cursor.ident("the name of a parameter")?;
        param_id(self.cursor, self.params, &name)
    }

    /// A dim in which `%name` is a value of the segment.
    pub(super) fn index(&mut self) -> Result<Dim> {
        let start = self.cursor.peek();
        let dim = parse_dim(self.cursor)?;
        let mut symbols = std::collections::BTreeSet::new();
        dim.collect_symbols(&mut symbols);
        let unknown = |s: &&String| s.strip_prefix('%').is_some_and(|name| !self.names.contains_key(name));
        if let Some(symbol) = symbols.iter().find(unknown) {
            return Err(self.cursor.error_at(&start, format!("`{symbol}` is not defined")));
        }
        Ok(dim.substitute(&|symbol| Some(self.names.get(symbol.strip_prefix('%')?)?.symbol())))
    }
}

fn param_id(cursor: &Cursor<'_>, params: &[Param], name: &Token<'_>) -> Result<ParamId> {
    let found = params.iter().position(|p| p.name == name.content());
    found
        .map(|i| ParamId(i as u32))
        .ok_or_else(|| cursor.error_at(name, format!("{} is not a parameter", name.describe())))
}

/// Reads a dtype.
pub(super) fn dtype(cursor: &mut Cursor<'_>) -> Result<DType> {
    let token = cursor.ident("a dtype")?;
    let found = DType::ALL.into_iter().find(|dtype| dtype.name() == token.text);
    found.ok_or_else(|| cursor.error_at(&token, format!("{} is not a dtype", token.describe())))
}

/// Reads one of several words.
pub(super) fn word<T: Copy>(cursor: &mut Cursor<'_>, words: &[(&str, T)]) -> Result<T> {
    for (name, value) in words {
        if cursor.eat_word(name) {
            return Ok(*value);
        }
    }
    let names: Vec<String> = words.iter().map(|(name, _)| format!("`{name}`")).collect();
    Err(cursor.expected(&names.join(" or ")))
}

/// Reads a literal of a known dtype.
pub(super) fn literal(cursor: &mut Cursor<'_>, dtype: DType) -> Result<Literal> {
    let at = cursor.peek();
    let literal = match dtype {
        DType::Bool => Literal::Int(dtype, word(cursor, &[("true", 1), ("false", 0)])?),
        _ if dtype.is_float() => {
            let text = cursor.number()?;
            // A text of an f32 is rounded once, straight from its digits.
            let value = if dtype == DType::F32 { text.parse().map(f32::into) } else { text.parse::<f64>() };
            Literal::Float(dtype, value.map_err(|_| cursor.error_at(&at, "malformed number"))?)
        }
        _ => Literal::Int(dtype, cursor.int()?),
    };
    if crate::kernel::verify::representable(&literal) {
        Ok(literal)
    } else {
        Err(cursor.error_at(&at, format!("not a value of {dtype}")))
    }
}

mod op;
