//! Rewrites of layout ops and of reductions over what is reduced already.

use super::rewrites;

rewrites! {
    /// A reshape to the same shape is the operand.
    exact reshape_same: "(x) y = reshape x {..}; yield y" => "(x) yield x";
    /// A reshape of a reshape is one reshape.
    exact reshape_twice: "(x) y = reshape x {..}; z = reshape y {$b}; yield z" => "(x) z = reshape x {$b}; yield z";
    /// A broadcast to the same shape is the operand.
    exact expand_same: "(x) y = expand x {..}; yield y" => "(x) yield x";
    /// A broadcast of a broadcast is one broadcast.
    exact expand_twice: "(x) y = expand x {..}; z = expand y {$b}; yield z" => "(x) z = expand x {$b}; yield z";
    /// A slice that keeps the extent keeps every element.
    exact slice_same: "(x) y = slice x {..}; yield y" => "(x) yield x";
    /// One operand is joined with nothing.
    exact cat_one: "(x) y = cat x {..}; yield y" => "(x) yield x";
    /// Two transpositions of a matrix cancel.
    exact transpose_twice: "(x) y = permute x {perm = [1, 0]}; z = permute y {perm = [1, 0]}; yield z" => "(x) yield x";
    /// A value of extent 1 along the axes is its own sum, maximum and so on, once reduced.
    exact reduce_twice: "(x) y = reduce x {$a}; z = reduce y {$a}; yield z" => "(x) y = reduce x {$a}; yield y";
}
