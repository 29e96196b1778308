"""Many engines and many agents on Ray, on one machine: does it end, is it balanced, and what does it cost?"""
