"""What `midfill eval` measures: which holes, asked of whom, judged how, and shown in what form.

`humaneval` and `cutting` make problems, `systems` has them answered, `outcomes` judges an answer,
`figures` counts, and `tables`, `plots` and `page` show. Imported by the command alone.
"""
