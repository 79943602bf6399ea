//! Comparisons, masks and selection. A mask is one bit per lane in vectors of 64 lanes, the rest of a tile in a block of
//! its own behind them; `masks.h` keeps to that.

use fusewright_abi::DType;
use fusewright_graph::ScalarFn;

use super::EmitError;
use super::memory::{BLOCK, Tensor};
use super::operands::Operand;
use super::segment::{Made, Scalar, Writer};
use crate::kernel::{InstOp, Val};

impl Writer<'_> {
    /// Bytes of a mask of so many lanes.
    pub fn mask_bytes(lanes: u64) -> u64 {
        (lanes / 64 * 8).next_multiple_of(BLOCK) + BLOCK
    }

    /// A mask that only this step uses.
    pub fn mask_scratch(&mut self, lanes: u64) -> Tensor {
        self.scratch("mask", "uint8_t", Self::mask_bytes(lanes), 1)
    }

    fn mask(&mut self, value: Val, wish: &str) -> Made<Tensor> {
        let lanes = self.most(value)?;
        let last = self.last_of(value);
        let tensor = self.lasting(wish, "uint8_t", Self::mask_bytes(lanes), 1, last);
        self.bind(value, tensor.clone());
        Ok(tensor)
    }

    /// A condition whose lanes lie in bytes: 0 does not hold.
    pub fn mask_of_bytes(&mut self, value: Val, bytes: &Tensor) -> Made<()> {
        let (count, lanes) = (self.count(value)?, self.most(value)?);
        let narrow = self.scratch("narrow", "half", lanes, 2);
        let wide = self.scratch("numbers", "float", lanes, 4);
        let zero = self.block(0);
        let to = self.mask(value, "given")?;
        let cast =
            |to: &Tensor, x: &Tensor| format!("Cast({}, {}, RoundMode::CAST_NONE, {count});", to.text(), x.text());
        self.steps().vector(cast(&narrow, bytes), &[bytes], &narrow);
        self.steps().vector(cast(&wide, &narrow), &[&narrow], &wide);
        let operands = [&to, &wide, &zero].map(|t| t.text()).join(", ");
        let line = format!("fusewright::Compare<CMPMODE::NE, true>({operands}, {count});");
        self.steps().vector(line, &[&wide, &zero], &to);
        Ok(())
    }

    /// A comparison of floats.
    pub fn compare(&mut self, f: ScalarFn, args: &[Val], result: Val) -> Made<()> {
        let dtype = self.dtype(args[0]);
        if dtype == DType::I32 {
            return self.compare_words(f, args, result);
        }
        if dtype == DType::Bool {
            return self.compare_masks(f, args, result);
        }
        if dtype != DType::F32 {
            return Err(EmitError::unsupported(format!("`{}` of {dtype}: the vector unit compares floats", f.name())));
        }
        let mode = mode(f);
        let a = self.lane_for_lane(args[0], result)?;
        let (b, spread) = self.lanes_or_block(args[1], result)?;
        let count = self.count(result)?;
        let to = self.mask(result, f.name())?;
        let line = format!(
            "fusewright::Compare<CMPMODE::{mode}{spread}>({}, {}, {}, {count});",
            to.text(),
            a.text(),
            b.text()
        );
        self.steps().vector(line, &[&a, &b], &to);
        Ok(())
    }

    /// A comparison of integers, which vector units compare for equality alone: an order is whether the larger is one of
    /// them.
    fn compare_words(&mut self, f: ScalarFn, args: &[Val], result: Val) -> Made<()> {
        let (a, b) = (self.lane_for_lane(args[0], result)?, self.lane_for_lane(args[1], result)?);
        let (count, lanes) = (self.count(result)?, self.most(result)?);
        if !self.chip.compares_words {
            let work = ["high", "lowOfFirst", "lowOfSecond"].map(|wish| self.scratch(wish, "int32_t", lanes, 4));
            let zero = self.block(0);
            let to = self.mask(result, f.name())?;
            let operands = [&to, &a, &b, &work[0], &work[1], &work[2], &zero].map(|t| t.text()).join(", ");
            let line = format!("fusewright::CompareHalves<CMPMODE::{}>({operands}, {count});", mode(f));
            let [high, first, second] = &work;
            self.steps().settled(line, &[&a, &b], &[high, first, second]);
            return Ok(());
        }
        let larger = matches!(f, ScalarFn::Lt | ScalarFn::Le | ScalarFn::Gt | ScalarFn::Ge);
        let (first, second) = match f {
            ScalarFn::Lt | ScalarFn::Ge => (None, a.clone()),
            ScalarFn::Gt | ScalarFn::Le => (None, b.clone()),
            _ => (Some(a.clone()), b.clone()),
        };
        let first = match first {
            Some(first) => first,
            None => {
                let most = self.scratch("larger", "int32_t", lanes, 4);
                let line = format!("Max({}, {}, {}, {count});", most.text(), a.text(), b.text());
                self.steps().vector(line, &[&a, &b], &most);
                most
            }
        };
        let differ = matches!(f, ScalarFn::Ne) || (larger && matches!(f, ScalarFn::Lt | ScalarFn::Gt));
        let to = self.mask(result, f.name())?;
        let operands = [&to, &first, &second].map(|t| t.text()).join(", ");
        self.steps().vector(
            format!("fusewright::Compare<CMPMODE::EQ, false>({operands}, {count});"),
            &[&first, &second],
            &to,
        );
        if differ {
            let line = format!("fusewright::MaskNot({}, {}, {count});", to.text(), to.text());
            let kept = to.clone();
            self.steps().vector(line, &[&kept], &to);
        }
        Ok(())
    }

    /// A tensor for an operand, and what the template says if it is one block for all lanes.
    fn lanes_or_block(&mut self, value: Val, result: Val) -> Made<(Tensor, &'static str)> {
        let operand = self.operand(value, result)?;
        self.lanes_or_block_of(operand, result)
    }

    fn lanes_or_block_of(&mut self, operand: Operand, result: Val) -> Made<(Tensor, &'static str)> {
        Ok(match operand {
            Operand::Same(tensor) => (tensor, ", false"),
            Operand::Block(block) => (block, ", true"),
            Operand::Constant(c) => (self.block(c.to_bits()), ", true"),
            other => (self.materialised(other, result)?, ", false"),
        })
    }

    /// Masks of masks.
    pub fn combine_masks(&mut self, f: ScalarFn, args: &[Val], result: Val) -> Made<()> {
        let operands = args.iter().map(|&a| self.mask_over(a, result)).collect::<Made<Vec<_>>>()?;
        let count = self.count(result)?;
        let name = match f {
            ScalarFn::And => "And",
            ScalarFn::Or => "Or",
            _ => "Not",
        };
        let to = self.mask(result, f.name())?;
        let texts: Vec<String> = operands.iter().map(Tensor::text).collect();
        let line = format!("fusewright::Mask{name}({}, {}, {count});", to.text(), texts.join(", "));
        let reads: Vec<&Tensor> = operands.iter().collect();
        self.steps().vector(line, &reads, &to);
        Ok(())
    }

    /// One of two values, lane by lane.
    pub fn select(&mut self, args: &[Val], result: Val) -> Made<()> {
        let dtype = self.dtype(result);
        if dtype == DType::Bool {
            return self.select_mask(args, result);
        }
        if self.size(dtype) != 4 {
            return Err(EmitError::unsupported(format!("a selection of {dtype}: the vector unit selects words")));
        }
        let mask = self.mask_over(args[0], result)?;
        let (a, spread_a) = self.lanes_or_block(args[1], result)?;
        let (b, spread_b) = self.lanes_or_block(args[2], result)?;
        let count = self.count(result)?;
        // The result may overwrite an operand that has its lanes, but not one that spreads.
        let spreads = [(args[1], spread_a), (args[2], spread_b)];
        let dying: Vec<Val> = spreads.iter().filter(|(_, spread)| *spread == ", false").map(|(v, _)| *v).collect();
        let to = self.destination(result, "select", &dying)?;
        self.select_into(&to, &mask, (&a, spread_a), (&b, spread_b), &count.to_string());
        Ok(())
    }

    /// One of two masks: what the condition leaves of the one, and its opposite of the other.
    fn select_mask(&mut self, args: &[Val], result: Val) -> Made<()> {
        let masks = args.iter().map(|&a| self.mask_over(a, result)).collect::<Made<Vec<_>>>()?;
        let [condition, a, b] = &masks[..] else { return Ok(()) };
        let lanes = self.most(result)?;
        let (other, chosen) = (self.mask_scratch(lanes), self.mask_scratch(lanes));
        let to = self.mask(result, "select")?;
        self.mask_step("And", &chosen, &[condition, a], result)?;
        self.mask_step("Not", &to, &[condition], result)?;
        self.mask_step("And", &other, &[&to, b], result)?;
        self.mask_step("Or", &to, &[&chosen, &other], result)
    }

    /// Whether conditions are the same, or are not.
    fn compare_masks(&mut self, f: ScalarFn, args: &[Val], result: Val) -> Made<()> {
        if !matches!(f, ScalarFn::Eq | ScalarFn::Ne) {
            return Err(EmitError::unsupported(format!("`{}` of conditions", f.name())));
        }
        let (a, b) = (self.mask_over(args[0], result)?, self.mask_over(args[1], result)?);
        let lanes = self.most(result)?;
        let (both, one) = (self.mask_scratch(lanes), self.mask_scratch(lanes));
        let to = self.mask(result, f.name())?;
        self.mask_step("And", &both, &[&a, &b], result)?;
        self.mask_step("Or", &one, &[&a, &b], result)?;
        let (first, last) = if f == ScalarFn::Ne { (&both, &one) } else { (&one, &both) };
        self.mask_step("Not", &to, &[first], result)?;
        let kept = to.clone();
        self.mask_step(if f == ScalarFn::Ne { "And" } else { "Or" }, &to, &[&kept, last], result)
    }

    /// One step of masks of a result's lanes.
    fn mask_step(&mut self, name: &str, to: &Tensor, from: &[&Tensor], result: Val) -> Made<()> {
        let count = self.count(result)?;
        let operands: Vec<String> = from.iter().map(|t| t.text()).collect();
        let line = format!("fusewright::Mask{name}({}, {}, {count});", to.text(), operands.join(", "));
        self.steps().vector(line, from, to);
        Ok(())
    }

    /// A condition for every lane of a result.
    pub fn mask_over(&mut self, condition: Val, result: Val) -> Made<Tensor> {
        if let Some(Scalar::Expression(text)) = self.scalar(condition).cloned() {
            return self.mask_of_number(&text, condition, result);
        }
        match self.operand(condition, result)? {
            Operand::Same(mask) => Ok(mask),
            _ => self.mask_of_scalar(condition, result),
        }
    }

    /// A condition of a whole row: its value as lanes, compared again.
    fn mask_of_scalar(&mut self, condition: Val, result: Val) -> Made<Tensor> {
        let mask = self.tensor(condition)?;
        let (count, lanes) = (self.count(condition)?, self.most(condition)?);
        let (one, zero) = (self.block(1.0f32.to_bits()), self.block(0));
        let truth = self.scratch("truth", "float", lanes, 4);
        self.select_into(&truth, &mask, (&one, ", true"), (&zero, ", true"), &count.to_string());
        // As an operand of the condition's shape, spread over the result.
        let held = self.swap_tensor(condition, truth);
        let operand = self.operand(condition, result);
        self.swap_tensor(condition, held);
        let spread = self.materialised(operand?, result)?;
        self.mask_of_truth(&spread, result)
    }

    /// A condition that the scalar unit has.
    fn mask_of_number(&mut self, text: &str, condition: Val, result: Val) -> Made<Tensor> {
        if self.tile.most(self.level(condition)) > 1 {
            return Err(EmitError::Single);
        }
        self.declare_ahead(&[text.to_owned()]);
        let (count, lanes) = (self.count(result)?, self.most(result)?);
        let truth = self.scratch("truth", "float", lanes, 4);
        let line = format!("Duplicate({}, {text} ? 1.0f : 0.0f, {count});", truth.text());
        self.steps().vector(line, &[], &truth);
        self.mask_of_truth(&truth, result)
    }

    /// The mask of what is not 0.
    fn mask_of_truth(&mut self, truth: &Tensor, result: Val) -> Made<Tensor> {
        let (count, lanes) = (self.count(result)?, self.most(result)?);
        let (mask, zero) = (self.mask_scratch(lanes), self.block(0));
        let operands = [&mask, truth, &zero].map(|t| t.text()).join(", ");
        let line = format!("fusewright::Compare<CMPMODE::NE, true>({operands}, {count});");
        self.steps().vector(line, &[truth, &zero], &mask);
        Ok(mask)
    }

    fn swap_tensor(&mut self, value: Val, tensor: Tensor) -> Tensor {
        let before = self.tensor(value).unwrap_or_else(|_| tensor.clone());
        self.bind(value, tensor);
        before
    }

    /// `to = mask ? a : b`, each with what its template argument says.
    pub fn select_into(&mut self, to: &Tensor, mask: &Tensor, a: (&Tensor, &str), b: (&Tensor, &str), count: &str) {
        let spreads = format!("{}{}", a.1.trim_start_matches(", "), b.1);
        let operands = [to, mask, a.0, b.0].map(|t| t.text()).join(", ");
        let line = format!("fusewright::Choose<{spreads}>({operands}, {count});");
        self.steps().vector(line, &[mask, a.0, b.0], to);
    }

    /// Puts NaN where an operand has it: extremes of NaN are open.
    pub fn keep_nan(&mut self, to: &Tensor, from: Operand, result: Val) -> Made<()> {
        let (from, spread) = match from {
            // A scalar alone is tested as often as the result.
            Operand::Block(block) => (self.materialised(Operand::Block(block), result)?, ", false"),
            other => self.lanes_or_block_of(other, result)?,
        };
        let lanes = self.most(result)?;
        let count = self.count(result)?.to_string();
        let mask = self.numbers(&from, lanes, &count);
        let kept = to.clone();
        self.select_into(to, &mask, (&kept, ", false"), (&from, spread), &count);
        Ok(())
    }

    /// The mask of lanes that are numbers.
    pub fn numbers(&mut self, x: &Tensor, lanes: u64, count: &str) -> Tensor {
        let mask = self.mask_scratch(lanes);
        let line =
            format!("fusewright::Compare<CMPMODE::EQ, false>({}, {}, {}, {count});", mask.text(), x.text(), x.text());
        self.steps().vector(line, &[x], &mask);
        mask
    }

    /// Whether every use of an extreme replaces it where an operand is NaN.
    pub fn nan_is_replaced(&self, result: Val, args: &[Val]) -> bool {
        let open: Vec<Val> = args.iter().copied().filter(|&a| !self.is_constant(a)).collect();
        let [x] = open[..] else { return false };
        let mut uses = self.uses(result).peekable();
        uses.peek().is_some()
            && uses.all(|inst| {
                let replaced = |test: Val, f: ScalarFn| self.map_args(test, f).is_some_and(|t| t == [x, x]);
                match (&inst.op, inst.args.as_slice()) {
                    (InstOp::Map(ScalarFn::Select), &[test, a, b]) => {
                        (replaced(test, ScalarFn::Ne) && b == result && a != result)
                            || (replaced(test, ScalarFn::Eq) && a == result && b != result)
                    }
                    _ => false,
                }
            })
    }
}

/// How the vendor spells a comparison.
fn mode(f: ScalarFn) -> &'static str {
    match f {
        ScalarFn::Eq => "EQ",
        ScalarFn::Ne => "NE",
        ScalarFn::Lt => "LT",
        ScalarFn::Le => "LE",
        ScalarFn::Gt => "GT",
        _ => "GE",
    }
}
