"""Programs: the forward of a model as a frozen Graph, with its control flow, that runs and is saved without its class.

control_flow   ex.cond, ex.while_loop, ex.scan, ex.map: Python's branches and loops as functions of functions
"""
