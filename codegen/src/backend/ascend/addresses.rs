//! Addresses: parameters as arguments, indices as C++, and the integers that they need.

use fusewright_abi::DType;
use fusewright_graph::Dim;
use fusewright_templates::ascend as template;

use super::EmitError;
use super::segment::{Made, Scalar, Writer};
use super::text;
use crate::kernel::{INNER, Inst, InstOp, ParamId, ROW, Val};

impl Writer<'_> {
    /// An integer for addresses or conditions.
    pub fn load_integer(&mut self, inst: &Inst, result: Val) -> Made<()> {
        let InstOp::Load { param, index, otherwise: None, .. } = &inst.op else {
            return Err(EmitError::unsupported("a masked load"));
        };
        let dtype = self.dtype(result);
        let integers = [DType::I64, DType::I32, DType::I16, DType::I8, DType::U8, DType::U16, DType::U32];
        if dtype == DType::Bool {
            let buffer = self.buffer(param.0)?;
            let at = self.index_text(index);
            let name = self.names.claim(&buffer);
            self.declare(result, &name, "bool", &format!("{buffer}Gm.GetValue({at}) != 0"));
            return Ok(());
        }
        if !integers.contains(&dtype) {
            return Err(EmitError::unsupported(format!("a single {dtype}")));
        }
        let buffer = self.buffer(param.0)?;
        let at = self.index_text(index);
        let name = self.names.claim(&buffer);
        self.declare(result, &name, "int64_t", &format!("{buffer}Gm.GetValue({at})"));
        Ok(())
    }

    /// Declares a scalar of an inner row.
    pub fn declare(&mut self, value: Val, name: &str, kind: &str, expression: &str) {
        self.declarations.push((value, format!("const {kind} {name} = {expression};")));
        self.express(value, name.to_owned());
    }

    /// Makes a parameter an argument of the class.
    pub fn buffer(&mut self, param: u32) -> Made<String> {
        let name = self.params[param as usize].clone();
        let declared = self.kernel.param(ParamId(param));
        if declared.dtype.bits() < 8 {
            return Err(EmitError::unsupported(format!("{} in memory: copies take bytes", declared.dtype)));
        }
        let element = self.element(declared.dtype)?;
        if !self.out.buffers.iter().any(|b| b.name == name) {
            self.out.buffers.push(template::Buffer { name: name.clone(), element });
        }
        Ok(name)
    }

    /// The text of a symbol of an index.
    pub fn symbol(&self, name: &str) -> String {
        match Val::from_symbol(name) {
            Some(value) => self.expression(value).unwrap_or_else(|| name.to_owned()),
            None => name.to_owned(),
        }
    }

    /// An index as C++ text.
    pub fn index_text(&self, index: &Dim) -> String {
        text::index(index, &|name| self.symbol(name))
    }

    /// An index as C++ text where there are no loops over the rows of a tile.
    pub fn address(&self, index: &Dim) -> String {
        text::index(index, &|name| match name {
            ROW | INNER => format!("tile.{name}"),
            _ => self.symbol(name),
        })
    }

    /// The C++ expression of an integer scalar.
    pub fn expression(&self, value: Val) -> Option<String> {
        match self.scalar(value) {
            Some(Scalar::Expression(text)) => Some(text.clone()),
            _ => None,
        }
    }

    /// The declarations that texts need, in order.
    pub fn declared(&self, texts: &[String]) -> Vec<String> {
        let mut texts = texts.to_vec();
        let mut lines = Vec::new();
        for (value, line) in self.declarations.iter().rev() {
            let Some(Scalar::Expression(name)) = self.scalar(*value) else { continue };
            if texts.iter().any(|t| text::mentions(t, name)) && !texts.iter().any(|t| t.trim() == line) {
                texts.push(line.clone());
                lines.push(line.clone());
            }
        }
        lines.reverse();
        lines
    }

    /// Declares what statements name where statements go now, each once.
    pub fn declare_ahead(&mut self, texts: &[String]) {
        for line in self.declared(texts) {
            let steps = self.steps();
            if !steps.lines.contains(&line) {
                steps.plain(line);
            }
        }
    }
}
