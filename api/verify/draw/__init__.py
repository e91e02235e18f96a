"""Random cells and calls, drawn as trees and written as source text."""
