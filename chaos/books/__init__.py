"""An oracle of the books: what everybody should owe, computed a second time by the rules that
docs/operations/tenants-and-money.md tells, from what clients saw and what was ordered. What judges imports
nothing of the product (tests/chaos/test_books.py): that is for those who ask, order, break and print.
"""
