"""Inference engines that Fusewright plugs into: experimental, optional, thin, and switched on by name.

Nothing here is imported unless an engine loads it through its entry point. None of it has been run inside an engine: what
it relies on is declared in :mod:`fusewright.engines._contract` and compared with the sources of the releases that it names,
and its own code is tested against stand-ins of the same signatures.
"""
