"""The rules that each form keeps, checked after every pass: a broken one is a bug of ours."""
