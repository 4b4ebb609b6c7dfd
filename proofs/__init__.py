"""Runnable claims about an agent's memory, one for each boundary, each with its evidence and its counter-evidence.

A proof plays scripts on a memory and judges what was recorded. The same script is then played on a memory that is wrong
on purpose: a claim that could not fail there would prove nothing here.
"""
