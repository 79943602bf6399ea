//! Printing kernels. What is printed here reads back equal through [`super::parse`].

use std::fmt::{self, Display, Formatter};

use fusewright_abi::{DType, ParamAccess};
use fusewright_graph::Literal;

use crate::kernel::{Claim, DimDecl, DimOrigin, Inst, InstOp, Kernel, Over, Param, ParamId, Segment, Val};

impl Display for Kernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "kernel @{}(", self.name)?;
        for (i, dim) in self.dims.iter().enumerate() {
            f.write_str(if i > 0 { ", " } else { "" })?;
            self.dim_decl(dim, f)?;
        }
        writeln!(f, ") rows {} {{", self.rows)?;
        for Claim { least, most } in &self.claims {
            writeln!(f, "  claim {least} <= {most}")?;
        }
        for param in &self.params {
            self.param_decl(param, f)?;
        }
        for segment in &self.segments {
            self.segment(segment, f)?;
        }
        f.write_str("}\n")
    }
}

impl Kernel {
    fn param_name(&self, id: ParamId) -> &str {
        self.params.get(id.0 as usize).map_or("?", |p| &p.name)
    }

    fn dim_decl(&self, dim: &DimDecl, f: &mut Formatter<'_>) -> fmt::Result {
        match &dim.origin {
            DimOrigin::Extent(param, axis) => write!(f, "{} = extent({}, {axis})", dim.name, self.param_name(*param)),
            DimOrigin::Stride(param, axis) => write!(f, "{} = stride({}, {axis})", dim.name, self.param_name(*param)),
            DimOrigin::Symbol => f.write_str(&dim.name),
        }
    }

    fn param_decl(&self, param: &Param, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "  param %{}: {}[", param.name, param.dtype)?;
        for (i, extent) in param.shape.iter().enumerate() {
            write!(f, "{}{extent}", if i > 0 { ", " } else { "" })?;
        }
        write!(f, "] {}", access_name(param.access))?;
        if let Some(alias) = param.alias {
            write!(f, " alias(%{})", self.param_name(alias))?;
        }
        for (set, word) in [(param.early, " early"), (param.donated, " donated")] {
            f.write_str(if set { word } else { "" })?;
        }
        writeln!(f)
    }

    fn segment(&self, segment: &Segment, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "  segment @{} inner {} {{", segment.name, segment.inner)?;
        for inst in &segment.insts {
            writeln!(f, "    {}", InstText { kernel: self, inst })?;
        }
        writeln!(f, "  }}")
    }
}

/// One instruction as text, with the names of a kernel's parameters.
pub(crate) struct InstText<'a> {
    /// Where the parameters are named.
    pub kernel: &'a Kernel,
    /// What is printed.
    pub inst: &'a Inst,
}

impl Display for InstText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Inst { op, args, results } = self.inst;
        if !results.is_empty() {
            write!(f, "{} = ", Values(results))?;
        }
        let name = op.name();
        let condition =
            |at: usize, otherwise: &Option<Literal>| Condition { args: args.get(at), otherwise: *otherwise };
        match op {
            InstOp::Literal(literal) => write!(f, "literal {} {}", literal.dtype(), LiteralText(literal)),
            InstOp::Index(index) => write!(f, "index {index}"),
            InstOp::Iota(lanes) => write!(f, "iota {lanes}"),
            InstOp::Load { param, index, shape, otherwise } => {
                let dtype = self.kernel.params.get(param.0 as usize).map_or(DType::U8, |p| p.dtype);
                let ty = crate::kernel::Ty { dtype, shape: shape.clone() };
                write!(f, "load {}[{index}] : {ty}{}", self.kernel.param_name(*param), condition(0, otherwise))
            }
            InstOp::Store { param, index, otherwise } => {
                let value = Values(args.get(..1).unwrap_or_default());
                write!(f, "store {}[{index}], {value}{}", self.kernel.param_name(*param), condition(1, otherwise))
            }
            InstOp::Cast { to, round, saturate } => {
                write!(f, "cast {} to {to} {}{}", Values(args), round.name(), if *saturate { " sat" } else { "" })
            }
            InstOp::Bitcast(to) => write!(f, "bitcast {} to {to}", Values(args)),
            InstOp::Reduce { op, over, nan, order } => {
                write!(f, "reduce {} {} over {over} nan {} order {order}", op.name(), Values(args), nan.name())
            }
            InstOp::ArgReduce(op) => write!(f, "arg_reduce {} {}", op.name(), Values(args)),
            InstOp::TopK { k, over } => {
                write!(f, "top_k {}", Values(args.get(..1).unwrap_or_default()))?;
                args.get(1).map_or(Ok(()), |key| write!(f, " by %{}", key.0))?;
                write!(f, " k {k}")?;
                if *over == Over::Row { Ok(()) } else { write!(f, " over {over}") }
            }
            InstOp::Slice { start, len, step } => {
                write!(f, "slice {} start {start} len {len} step {step}", Values(args))
            }
            InstOp::Pack { ways, to } => write!(f, "pack {} ways {ways} to {to}", Values(args)),
            InstOp::Broadcast(shape) => write!(f, "broadcast {} to {}", Values(args), ShapeText(shape)),
            InstOp::AsGroup { lanes, size } => write!(f, "as_group {} lanes {lanes} size {size}", Values(args)),
            InstOp::Map(_) | InstOp::Cat | InstOp::Zip | InstOp::AsRow => write!(f, "{name} {}", Values(args)),
        }
    }
}

impl Display for Over {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Over::Row => f.write_str("row"),
            Over::Group(size) => write!(f, "group {size}"),
        }
    }
}

struct Values<'a>(&'a [Val]);

impl Display for Values<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, v) in self.0.iter().enumerate() {
            write!(f, "{}{v:?}", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

struct Condition<'a> {
    args: Option<&'a Val>,
    otherwise: Option<Literal>,
}

impl Display for Condition<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(p) = self.args {
            write!(f, " if {p:?}")?;
        }
        self.otherwise.map_or(Ok(()), |literal| write!(f, " else {}", LiteralText(&literal)))
    }
}

struct ShapeText<'a>(&'a crate::kernel::Shape);

impl Display for ShapeText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        use crate::kernel::Shape;
        match self.0 {
            Shape::Scalar => f.write_str("scalar"),
            Shape::Row(lanes) => write!(f, "row<{lanes}>"),
            Shape::Group { lanes, size } => write!(f, "group<{lanes}, {size}>"),
        }
    }
}

/// A literal's value without its dtype: `1e-6`, `nan`, `-inf`, `-3`, `true`.
pub(crate) struct LiteralText<'a>(pub &'a Literal);

impl Display for LiteralText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self.0 {
            Literal::Float(_, v) if v.is_nan() => f.write_str("nan"),
            // The shortest text that gives the same f32; wider text would be exact but unreadable.
            Literal::Float(DType::F32, v) if f64::from(v as f32) == v => write!(f, "{:?}", v as f32),
            Literal::Float(_, v) => write!(f, "{v:?}"),
            Literal::Int(DType::Bool, v @ (0 | 1)) => write!(f, "{}", v == 1),
            Literal::Int(_, v) => write!(f, "{v}"),
        }
    }
}

pub(super) const ACCESS: [(&str, ParamAccess); 3] =
    [("in", ParamAccess::In), ("out", ParamAccess::Out), ("inout", ParamAccess::InOut)];

fn access_name(access: ParamAccess) -> &'static str {
    ACCESS.iter().find(|(_, a)| *a == access).map_or("in", |(name, _)| name)
}
