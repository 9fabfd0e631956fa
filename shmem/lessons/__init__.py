"""Lessons on queue pairs: `shmemu lesson`, and the pages in `docs/lessons`, which are the same text.

A lesson is a claim with its sources, a program that shows it, and an exercise: a file with a gap. Programs, exercises
and solutions are files in `data`, with the claims beside them; what a lesson's program prints and does is found by
running it on the fabric `sim`. The answer to an exercise is explored under the profiles of the lesson, and a wrong one
is known by how it fails: `hints` of each lesson look at that, not at the text of the answer.
"""
