"""The report of `credo fit`: one HTML file that says in words and pictures what was learned, and how sure it is."""
