"""Rows on their way into `fit`: what holds them, how they are read and checked."""
