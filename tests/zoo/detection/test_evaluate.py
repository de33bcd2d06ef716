"""The best and the worst test images of a detector."""

from zoo.detection import evaluate


def test_the_best_and_the_worst_images_are_drawn():
    f1 = {number: number / 20 for number in (3, 1, 4, 15, 9, 2, 6, 5, 14, 13, 12, 11, 10, 8)}
    objects = [{"image_id": 1, "id": 7}]
    found = {number: [{"image_id": number, "score": 0.9}] for number in (15, 1)}
    images = [{"id": number, "file_name": f"{number}.jpg"} for number in f1]
    annotations = {"images": images, "annotations": objects}
    read = lambda ids: {number: -number for number in ids}  # noqa: E731
    order = [
        (f"{n}.jpg: F1 {n / 20:.2f}", -n, found.get(n, []), objects if n == 1 else [])
        for n in sorted(f1)
    ]
    grids = dict(evaluate.extremes(read, f1, [*found[15], *found[1]], annotations))
    assert grids == {"worst": order[:12], "best": order[::-1][:12]}


def test_ids_are_those_of_the_file():
    images, categories = [{"id": 1, "file_id": 17}, {"id": 2}], [{"id": 3, "file_id": 90}]
    annotations = {"images": images, "categories": categories}
    found = [{"image_id": image, "category_id": 3, "score": 0.5} for image in (1, 2)]
    expected = [{"image_id": image, "category_id": 90, "score": 0.5} for image in (17, 2)]
    other = {"image_id": 1, "category_id": 90, "score": 0.5}  # a category of the detector alone
    assert evaluate.with_file_ids([*found, other], annotations) == expected
